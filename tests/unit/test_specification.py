"""
Every row has a test that names it: ``@pytest.mark.specification("9.1 refresh")``, where 9.1 is a section of
``docs/service.md``. A row may have several tests, and a test several rows.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.unit.documents import service_sections

HERE = Path(__file__).parent
ROWS = {
    "2.1 inbox": "an inbox has status and paused_reason",
    "2.2 initialization_failure": "the inbox is deleted and created again",
    "3.2 duplicates": "processing is idempotent on the message's id",
    "4 bearer": "Authorization: Bearer",
    "4.4 messages": "lists include quarantined messages",
    "7 templates": "client_id is a query parameter",
    # 9 Tokens
    "9.1 multipart": "multipart/form-data body",
    "9.1 credentials": "by HTTP Basic, or as body fields",
    "9.1 authorization code": "grant_type, code, redirect_uri; the answer has a refresh token",
    "9.1 refresh": "grant_type, refresh_token; the answer has new tokens of both kinds",
    "9.1 client credentials": "grant_type, scope; the answer has no refresh token",
    "9.1 not stored": "Cache-Control: no-store and Pragma: no-cache",
    "9.3 client secret": "a regenerated one makes the former invalid",
    # 10 Authorization page
    "10 response_type": "code",
    "10 client_id": "the application's",
    "10 redirect_uri": "one of those configured",
    "10 scope": "one or more, separated by spaces",
    "10 response_mode": "query",
    "10 state": "random; the redirect brings it back",
    "10 code": "comes by redirect, valid for 120 s",
    # 11 Errors
    "11.1 errors": "a list, of which the first entry counts: code and detail",
    "11.2 400 unauthenticated": "a new access token is requested",
    "11.2 400 field": "detail names the field and the reason",
    "11.2 401 invalid_audience": "another token endpoint or scope is needed",
    "11.2 401 prefix": "Authorization lacks Bearer",
    "11.2 404": "no such inbox",
    "11.2 409": "the name belongs to another subscription",
    "11.3 401, 403, 409, 429, 503, 504": "the body of 11.1",
    "11.3 500": "the body of 11.1, with the code error",
    "11.4 expired": "400 unauthenticated",
    # 13 Guess
    "13.1 client_id": "query parameter, required; no access token is needed",
    "13.1 body": "JSON with the description",
    "13.1 200": "the guess",
    "13.2 400": "messages that say why",
    # 14 Authentication
    "14.1 client identifier": "client_id is a query parameter of guess and templates",
    "14.1 user access token": "Authorization: Bearer",
    "14.1 app access token": "for what the application does itself",
    "14.1 redirect URIs": "only configured ones",
    "14.2 scopes": "workflow, workflow:write, authentication, promotions:read, promotions:write, external",
    "14.3 approval": "the URL is built, and the user approves",
    "14.3 state": "state is verified",
    "14.3 code": "the code is exchanged within 120 s; later it fails",
    "14.3 access token": "each request carries the access token",
    "14.3 expired": "an access token expires after 36000 s",
    "14.3 refresh": "the answer has new tokens of both kinds; the old refresh token is of no use",
    "14.3 storage": "only the server can read refresh tokens",
    "14.4 scope": "external, or 401 invalid_audience",
    "14.4 prefix": "Bearer, or 401",
    "15 429, 503": "Retry-After and the X-RateLimit headers are read",
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


def test_every_row_has_a_test_that_names_it() -> None:
    assert {row: text for row, text in ROWS.items() if row not in marked()} == {}


def test_every_row_that_a_test_names_is_there() -> None:
    assert set(marked()) - set(ROWS) == set()


def test_every_row_belongs_to_a_section_that_exists() -> None:
    assert {row.partition(" ")[0] for row in ROWS} <= set(service_sections())
