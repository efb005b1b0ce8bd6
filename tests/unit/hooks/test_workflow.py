"""The hook: its methods, and the connection with its form, its test and its files."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, urlsplit

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import Connection as TaskConnection
from airflow.sdk._shared.secrets_masker import _secrets_masker, redact, should_hide_value_for_key

from airflow_provider_workflow import client, get_provider_info
from airflow_provider_workflow.client import api, async_client
from airflow_provider_workflow.client.errors import ConfigurationError, LoginRequiredError, NotFoundError
from airflow_provider_workflow.client.settings import EXTRA_FIELDS, Settings
from airflow_provider_workflow.client.user_tokens import NONE_STORED
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import workflow
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.source import SourceProblem, problem_of_error
from tests.unit import odd_files
from tests.unit.client.calls import SUBSCRIPTION
from tests.unit.client.conftest import closed_port
from tests.unit.hooks.conftest import Connect

__all__ = ["closed_port"]


@pytest.mark.parametrize(
    "connection", [lambda uri: StoredConnection("c", uri=uri), lambda uri: TaskConnection.from_uri(uri, "c")]
)
@pytest.mark.parametrize("host_and_path", ["api.example.com/prefix", "[::1]:8080/http/prefix"])
def test_a_path_in_a_uri_is_named_as_what_is_wrong(
    connection: Any, host_and_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection_of_uri = connection(
        f"workflow://an-id:a-secret@{host_and_path}?oauth_url=https%3A%2F%2Fa%2Ftoken"
    )
    monkeypatch.setattr(WorkflowHook, "get_connection", lambda *_: connection_of_uri)
    with pytest.raises(ConfigurationError, match="schema must be http or https") as error_info:
        _ = WorkflowHook("c").settings
    assert len(error_info.value.problems) == 1


@pytest.mark.specification("10 response_type", "10 client_id", "10 redirect_uri", "10 scope")
@pytest.mark.specification("10 response_mode", "10 state", "14.2 scopes")
@pytest.mark.specification("9.1 multipart", "9.1 authorization code", "9.1 refresh", "9.1 client credentials")
def test_the_flow_of_a_user_s_tokens(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked_values: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked_values.append)
    scope, redirect = "workflow workflow:write authentication", emulator.store.settings.redirect_uris[0]
    query = dict(parse_qsl(urlsplit(hook.authorization_url(scope=scope, state="a&b")).query))
    assert emulator.store.tokens.page_fault(query) is None, "the page has all that it asks for"
    back = dict(parse_qsl(urlsplit(emulator.store.tokens.approve(query)).query))
    assert back["state"] == "a&b"
    first = hook.exchange_code(back["code"])
    second = hook.refresh_user_token(first["refresh_token"])
    own, other = hook.app_token(), hook.app_token("promotions:read promotions:write")
    assert [token["scope"] for token in (first, second, own, other)] == [
        *(scope, scope, "external", "promotions:read promotions:write")
    ]
    forms = [
        re.findall(r'name="([^"]+)"\r\n\r\n(.*?)\r\n', request.body.decode()) for request in emulator.requests
    ]
    assert [dict(form) for form in forms] == [
        {"grant_type": "authorization_code", "code": back["code"], "redirect_uri": redirect},
        {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]},
        {"grant_type": "client_credentials", "scope": "external"},
        {"grant_type": "client_credentials", "scope": "promotions:read promotions:write"},
    ]
    assert masked_values == [
        *(first["access_token"], first["refresh_token"]),
        *(second["access_token"], second["refresh_token"]),
        *(own["access_token"], other["access_token"]),
    ]
    assert len(set(masked_values)) == 6


def test_access_tokens_are_masked(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked_values: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked_values.append)
    hook.list_inboxes()
    assert [f"Bearer {secret}" for secret in masked_values] == [
        emulator.requests[-1].headers["authorization"]
    ]


async def test_a_triggerer_that_lives_through_many_tokens_does_not_grow_by_them(
    hook: WorkflowHook, emulator: EmulatorServer
) -> None:
    """Airflow never forgets what it masks, and compiles all of it anew with each secret."""
    _ = hook.settings
    patterns = set(_secrets_masker().patterns)
    async with hook.async_client() as sender:
        for _ in range(3):
            await sender.send(api.list_inboxes())
            emulator.store.tokens.expire()
    assert emulator.count("token") == 3
    assert _secrets_masker().patterns == patterns


async def test_a_loop_imports_no_aiohttp_and_reads_no_certificates_itself(
    hook: WorkflowHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    finder = Mock(find_spec=lambda *_: threads.append(threading.get_ident()))
    monkeypatch.setattr(client, "async_client", async_client)  # restores it
    monkeypatch.delitem(sys.modules, async_client.__name__)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(Settings, "tls", lambda _: finder.find_spec())
    async with hook.async_client():
        assert len(threads) == 2
        assert threading.get_ident() not in threads


@pytest.mark.parametrize("extra", ["no json", "[1]", '"{}"', "null", ""])
async def test_an_extra_that_is_no_object_is_named(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "workflow", "host": "a", "login": "i", "password": "p", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(fields))
    text = "used: extra is not a JSON object" if extra else "used: oauth_url is missing"
    with pytest.raises(ConfigurationError, match=text):
        async with WorkflowHook().async_client():
            pass
    with pytest.raises(ConfigurationError, match=text):
        _ = WorkflowHook().settings


def test_a_connection_that_airflow_lacks_is_named_and_tasks_are_retried(isolated: None) -> None:
    with pytest.raises(
        ConfigurationError, match=r"no connection 'lost' .* set AIRFLOW_CONN_LOST"
    ) as error_info:
        _ = WorkflowHook("lost").settings
    problem = problem_of_error(error_info.value)
    assert problem == SourceProblem("unusable", str(error_info.value), may_be_away=True), (
        "its API may be away"
    )


def test_user_tokens_that_the_service_rejects_last_and_missing_ones_may_be_airflow_s_fault() -> None:
    for reason, lasts in (("the service no longer accepts the refresh token", True), (NONE_STORED, False)):
        problem = problem_of_error(LoginRequiredError("c", reason))
        assert problem is not None
        assert problem.may_be_away is not lasts


def test_a_secret_is_masked_without_the_line_break_that_was_stored_after_it(connect: Connect) -> None:
    assert connect(password="secret-of-a-task\n").settings.client_secret == "secret-of-a-task"
    assert redact("it is secret-of-a-task.") == "it is ***."


def test_the_form_has_every_extra_field_that_the_settings_read() -> None:
    assert set(get_provider_info.CONN_FIELDS) == set(EXTRA_FIELDS)


def test_the_defaults_of_the_form_are_those_of_the_settings() -> None:
    schemas = {name: field["schema"] for name, field in get_provider_info.CONN_FIELDS.items()}
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    extra = {"oauth_url": "https://a/t", **defaults}
    settings = Settings.build(host="a", login="i", password="s", extra=extra)
    assert settings == Settings("https://a", "i", "s", "https://a/t")


def test_airflow_masks_no_field_of_the_form() -> None:
    assert [name for name in get_provider_info.CONN_FIELDS if should_hide_value_for_key(name)] == []
    assert should_hide_value_for_key("token_url")


def test_the_field_that_is_required_stands_first_and_alone_refuses_null() -> None:
    refuse_null = [
        name for name, field in get_provider_info.CONN_FIELDS.items() if "null" not in field["schema"]["type"]
    ]
    assert refuse_null == [next(iter(get_provider_info.CONN_FIELDS))] == ["oauth_url"]
    assert get_provider_info.CONN_FIELDS["oauth_url"]["schema"]["examples"]


def test_a_right_connection_passes_with_one_token_that_is_masked(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked_values: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked_values.append)
    assert hook.test_connection() == (True, "A token was issued, and the service accepts it.")
    assert [request.operation for request in emulator.requests] == ["token", "list_inboxes"]
    assert {f"Bearer {token}" for token in masked_values} == {emulator.requests[-1].headers["authorization"]}


@pytest.mark.parametrize(
    ("extra", "message"),
    [({"scope": "unheard-of"}, "(invalid_scope)"), ({"inbox_path": "/wrong-path"}, "answered with 404")],
)
def test_what_is_wrong_with_a_connection_is_said(
    extra: dict[str, str], message: str, connect: Connect
) -> None:
    has_passed, text = connect(extra).test_connection()
    assert not has_passed
    assert message in text
    assert "\n" not in text


def test_a_connection_that_is_incomplete_or_away_is_said_with_its_fix(
    connect: Connect, closed_port: int
) -> None:
    has_passed, text = connect(login=None, password="").test_connection()
    assert not has_passed
    assert text.startswith("The workflow connection cannot be used: login is missing")
    assert "password is missing" in text

    has_passed, text = connect({"oauth_url": f"http://127.0.0.1:{closed_port}/token"}).test_connection()
    assert not has_passed
    assert f"127.0.0.1:{closed_port} cannot be reached" in text
    assert "check Token URL" in text


def test_the_connection_test_asks_once_and_neither_uses_nor_keeps_tokens(
    connect: Connect, emulator: EmulatorServer
) -> None:
    connect().list_inboxes()
    emulator.store.configure(client_secret="regenerated")
    hook = connect(password="regenerated")
    emulator.store.configure(client_secret="regenerated once more")
    assert not hook.test_connection()[0]
    emulator.store.configure(client_secret="regenerated")
    assert hook.test_connection()[0]
    requests_before = emulator.count("token")
    hook.list_inboxes()
    assert emulator.count("token") == requests_before + 1

    requests_before = emulator.count("token")
    emulator.fault("status", "token", status=503, times=None)
    has_passed, text = hook.test_connection()
    assert (has_passed, emulator.count("token") - requests_before) == (False, 1)
    assert "answered with 503" in text


@pytest.mark.parametrize("by", ["id", "name"])
def test_an_inbox_and_its_messages_live_through_all_methods(
    by: str, hook: WorkflowHook, emulator: EmulatorServer
) -> None:
    inbox_of_hook = hook.create_inbox(SUBSCRIPTION, "orders", "https://example.com/told")
    assert inbox_of_hook["notification_url"] == "https://example.com/told"
    assert hook.ensure_inbox("orders", SUBSCRIPTION)["id"] == inbox_of_hook["id"]
    inbox = str(inbox_of_hook[by])  # type: ignore[literal-required]
    assert hook.get_inbox(inbox)["id"] == inbox_of_hook["id"]
    assert hook.update_inbox(inbox, None)["notification_url"] is None
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    lease = hook.lease_messages(inbox, lease_limit=2, lease_seconds=60)
    assert [message["payload"]["n"] for message in lease["results"]] == [1, 2]
    assert json.loads(emulator.requests[-1].body) == {"lease_limit": 2, "lease_seconds": 60}
    assert hook.acknowledge_messages(inbox, str(lease["lease_id"]), ids[:1])["acked_id"]
    assert hook.release_messages(inbox, str(lease["lease_id"]))["released_id"]
    assert [message["id"] for message in hook.list_messages(inbox)] == ids[1:]

    hook.create_inbox(SUBSCRIPTION, "invoices")
    assert hook.pause_inbox(inbox)["status"] == "paused"
    assert [paused_inbox["id"] for paused_inbox in hook.list_inboxes(status="paused")] == [
        inbox_of_hook["id"]
    ]
    assert hook.resume_inbox(inbox)["status"] == "active"
    assert hook.delete_inbox(inbox)["id"] == inbox_of_hook["id"]
    with pytest.raises(NotFoundError):
        hook.get_inbox(inbox)


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        *(("REQUESTS_CA_BUNDLE", kind) for kind in odd_files.KINDS),
        ("CURL_CA_BUNDLE", "missing"),
        ("SSL_CERT_FILE", "broken"),
    ],
)
async def test_a_variable_of_the_environment_names_a_file_of_certificates_or_itself_as_wrong(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    hook = connect()
    with odd_files.odd_file(kind, tmp_path) as path:
        monkeypatch.setenv(variable, path)
        with pytest.raises(ConfigurationError) as error_info:
            hook.list_inboxes()
        with pytest.raises(ConfigurationError) as in_trigger:
            async with hook.async_client():
                pass
    (problem,) = error_info.value.problems
    assert problem == f"{variable} names a file that {odd_files.KINDS[kind]} (correct or unset it)"
    assert in_trigger.value.problems == [problem]
