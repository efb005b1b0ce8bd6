"""
Every row of specification 4, 5 and 7 has a test that names it: ``@pytest.mark.specification("4.3 refresh")``.

A row may have several tests, and a test several rows.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = {
    # 4.1 Guess a workflow
    "4.1 client_id": "query parameter, required; no access token is needed",
    "4.1 body": "JSON with the description",
    "4.1 200": "the guess",
    "4.1 400": "the invalid guess response",
    "4.1 401, 403, 409, 504": "an error response",
    "4.1 429, 503": "an error response with Retry-After and the X-RateLimit headers",
    "4.1 500": "an error response with the code error",
    # 4.2 Authorization page
    "4.2 response_type": "code",
    "4.2 client_id": "the application's",
    "4.2 redirect_uri": "one of those configured",
    "4.2 scope": "one or more, separated by spaces",
    "4.2 response_mode": "query",
    "4.2 state": "random, and brought back",
    "4.2 code": "comes back by redirect, valid for 2 minutes",
    # 4.3 Token endpoint
    "4.3 multipart": "multipart/form-data body",
    "4.3 credentials": "by HTTP Basic, or as body fields",
    "4.3 authorization code": "grant_type, code, redirect_uri; a refresh token comes with it",
    "4.3 refresh": "grant_type, refresh_token; a new one of each comes",
    "4.3 client credentials": "grant_type, scope; no refresh token comes",
    "4.3 not stored": "Cache-Control: no-store and Pragma: no-cache",
    # 4.4 and 4.5
    "4.4 templates": "client_id as query parameter",
    "4.5 bearer": "Authorization: Bearer",
    "4.5 inbox": "with status and paused_reason",
    "4.5 messages": "quarantined ones included",
    # 5 Authentication
    "5 client identifier": "client_id as query parameter, for guess and v1",
    "5 user access token": "Authorization: Bearer",
    "5 app access token": "for what the application does on its own behalf",
    "5.1 redirect URIs": "only configured ones",
    "5.1 client secret": "a regenerated one makes the former invalid",
    "5.2.1": "the authorization URL is built, and the user approves",
    "5.2.2": "state is verified",
    "5.2.3": "the code is exchanged within 2 minutes; later it fails",
    "5.2.4": "each request carries the access token",
    "5.2.5": "an access token ends after 36000 s; then 401",
    "5.2.6": "refresh gives new ones of both; the old one is of no use; it ends only when used",
    "5.2.7": "refresh tokens lie where only the server can read them",
    "5.3 scopes": "workflow, workflow:write, authentication, promotions:read, promotions:write, external",
    "5.4 scope": "external, or 401 invalid_audience",
    "5.4 prefix": "Bearer, or 401",
    "5.4 expired": "400 unauthenticated",
    # 7 Errors
    "7 errors": "an array, of which the first counts: code and detail",
    "7.1 400 unauthenticated": "a new access token is obtained",
    "7.1 400 field": "detail names the field and the reason",
    "7.1 401 invalid_audience": "another token endpoint or scope is needed",
    "7.1 401 prefix": "Authorization lacks Bearer",
    "7.1 404": "no such inbox",
    "7.1 409": "the name is taken by another subscription",
    "7.1 429": "Retry-After, Remaining and Reset are read",
    "7.2 400": "the invalid guess response",
    "7.2 401, 403, 409, 429, 503, 504": "an error response",
    "7.2 500": "an error response with the code error",
    "7.3 initializing": "initialization_failure: delete and create anew",
    "7.3 duplicates": "processing is idempotent on the message's id",
}


@cache
def marked() -> dict[str, list[str]]:
    """The unit tests that name a row, by row."""
    found: dict[str, list[str]] = {}
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                for row in _rows(node):
                    found.setdefault(row, []).append(f"{path.relative_to(HERE)}::{node.name}")
    return found


def _rows(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    calls = [each for each in function.decorator_list if isinstance(each, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.specification"]
    return [ast.literal_eval(argument) for mark in marks for argument in mark.args]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_a_test_that_names_it(row: str) -> None:
    assert marked().get(row), f"no test names {row!r} ({ROWS[row]})"


def test_every_row_that_a_test_names_is_there() -> None:
    assert set(marked()) - set(ROWS) == set()
