"""``guess``, ``templates``, ``token``, ``emulator`` and ``put`` (docs/service.md 7, 9.2, 11.3, 13 and 14)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import pytest

from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.hooks.conftest import Variables, variables

__all__ = ["variables"]


def test_a_token_is_shown_masked_with_its_end_and_scope(
    cli: Cli, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    shown = cli("token")

    (token,) = emulator.store.tokens.issued
    assert (shown.code, shown.err) == (0, "")
    assert "external" in shown.out
    assert "36000" in shown.out
    assert "***" in shown.out
    for text in (shown.out, caplog.text):
        assert token not in text
        assert token[:-4] not in text


def test_a_token_is_asked_for_with_a_scope(cli: Cli) -> None:
    assert cli("token", "--scope", "promotions:write", "-o", "json").json["scope"] == "promotions:write"


def test_with_the_grant_refresh_token_it_is_the_users(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch, variables: Variables
) -> None:
    user = emulator.connection()
    user["extra"]["grant"] = "refresh_token"
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(user))
    now = datetime.now(UTC).timestamp()
    users = UserTokens("the-access-token-of-the-user-0123456789", "the-refresh-token", now + 500, now + 1000)
    VariableStore(WorkflowHook().settings).write(users)

    assert cli("token", "--show").out == f"{users.access_token}\n"
    told = cli("token", "-o", "json").json
    assert told["access_token"] == "***6789"
    assert 900 < told["expires_in"] <= 1000
    assert emulator.count("token") == 0


def test_of_a_token_a_script_reads_its_end_and_nothing_is_shown_of_a_short_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = datetime.fromisoformat(cli("token", "-o", "json").json["expires_at"]) - datetime.now(UTC)
    assert 35_900 < ends.total_seconds() <= 36_000

    monkeypatch.setattr(WorkflowHook, "access_token", lambda hook, scope: {"access_token": "abcdefgh"})
    told = cli("token", "-o", "json").json
    assert (told["access_token"], told["expires_in"]) == ("***", 3600)


def test_a_guess_is_shown_with_its_link_and_steps_and_whole_to_a_script(cli: Cli) -> None:
    text = "When an order arrives in the shop, add a row to the spreadsheet"
    shown = cli("guess", text)
    assert (shown.code, shown.err) == (0, "")
    assert "New Order | Shop " in shown.out
    assert "/editor?step=ShopAPI" in shown.out

    found = cli("guess", text, "-o", "json").json
    assert found["prefilled_url"].endswith("/editor?step=ShopAPI%401.0.0&step=SpreadsheetAPI%401.0.0")
    assert [step["step"]["app"] for step in found["steps"]] == ["Shop", "Spreadsheet"]


def test_templates_of_apps_are_listed(cli: Cli) -> None:
    arguments = ("templates", "--apps", "shop, spreadsheet", "--limit", "1")
    shown = cli(*arguments)
    assert shown.code == 0
    assert "Spreadsheet" in shown.out
    (one,) = cli(*arguments, "-o", "json").json
    assert {step["api"] for step in one["steps"]} == {"ShopAPI@1.0.0", "SpreadsheetAPI@1.0.0"}
    assert len(cli("templates", "-o", "json").json) > 100


def test_messages_are_put_at_an_address_without_a_connection(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_WORKFLOW_DEFAULT")
    assert cli("put", "orders", "1", "--url", f"{emulator.base_url}/").code == 3
    assert cli("put", "orders", "1", "--create", "--url", f"{emulator.base_url}/").code == 0
    assert emulator.summary("orders")["counts"]["available"] == 1
    assert cli("put", "orders", "1").code == 5


def test_what_is_no_json_is_wrong_usage_and_puts_nothing(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.open_inbox("orders")

    shown = cli("put", "orders", '{"n": 1}', "{n: 2}")

    assert shown.code == 2
    assert "'{n: 2}' is not JSON" in shown.err
    assert emulator.summary("orders")["messages"] == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_json_is_named_and_puts_nothing(
    cli: Cli, emulator: EmulatorServer, number: str
) -> None:
    emulator.open_inbox("orders")

    shown = cli("put", "orders", f'{{"n": {number}}}')

    assert shown.code == 2
    assert f"is not JSON ({number} is not a number of JSON)" in shown.err
    assert emulator.summary("orders")["messages"] == []


def test_a_number_beyond_the_largest_one_is_put_as_json(cli: Cli) -> None:
    with ScriptedServer() as server:
        server.answers = [answer(200, {"ids": ["a"]})]
        assert cli("put", "orders", '{"n": 1e400}', "--url", server.url).code == 0
        assert b'{"n": 1e999}' in server.requests[-1]


def test_what_a_paused_inbox_drops_is_a_fault(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.store.inboxes.force(emulator.open_inbox("orders"), "paused", "user")

    shown = cli("put", "orders", "1", "2", "-o", "json")

    assert (shown.code, shown.json["dropped"]) == (1, 2)
    assert "the inbox is paused" in shown.err
    assert cli("put", "orders", "1").out == ""


def test_where_no_emulator_is_it_says_so(cli: Cli, emulator: EmulatorServer) -> None:
    nobody = cli("put", "orders", "1", "--url", "http://127.0.0.1:1")
    assert (nobody.code, nobody.out) == (1, "")
    assert "no emulator answers at http://127.0.0.1:1/" in nobody.err
    assert cli("put", "orders", "1", "--url", "nonsense").code == 1

    other = cli("put", "orders", "1", "--url", f"{emulator.base_url}/v2")
    assert (other.code, "/v2/_emulator/messages is not an emulator" in other.err) == (1, True)

    shown = cli("put", "orders", "1")
    assert (shown.code, "no inbox 'orders'" in shown.err) == (3, True)


def test_an_answer_to_put_is_read_in_part_only_and_may_be_of_another_server(cli: Cli) -> None:
    large, other, refused = {"ids": [], "rest": "x" * 17_000_000}, {"n": 1}, {"errors": [{"detail": "no"}]}
    with ScriptedServer() as server:
        server.answers = [answer(200, large), answer(400, other), answer(400, refused)]
        said = [cli("put", "orders", "1", "--url", server.url).err for _ in server.answers]
    assert ["is not an emulator" in each for each in said] == [True, True, False]
    assert "nothing was put: no" in said[-1]


def test_a_variable_that_is_no_connection_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MINE", '{"conn_type": "workflow",}')
    shown = cli("token", "--conn-id", "mine")
    assert (shown.code, "Airflow cannot read AIRFLOW_CONN_MINE" in shown.err) == (5, True)
