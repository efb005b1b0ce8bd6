"""``put``: what an emulator takes, and what it refuses."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.client.scripted_server import ScriptedServer, answer


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

    result = cli("put", "orders", '{"n": 1}', "{n: 2}")

    assert result.code == 2
    assert "'{n: 2}' is not JSON" in result.err
    assert emulator.summary("orders")["messages"] == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_json_is_named_and_puts_nothing(
    cli: Cli, emulator: EmulatorServer, number: str
) -> None:
    emulator.open_inbox("orders")

    result = cli("put", "orders", f'{{"n": {number}}}')

    assert result.code == 2
    assert f"is not JSON ({number} is not a number of JSON)" in result.err
    assert emulator.summary("orders")["messages"] == []


def test_a_number_beyond_the_largest_one_is_put_as_json(cli: Cli) -> None:
    with ScriptedServer() as server:
        server.answers = [answer(200, {"ids": ["a"]})]
        assert cli("put", "orders", '{"n": 1e400}', "--url", server.url).code == 0
        assert b'{"n": 1e999}' in server.requests[-1]


def test_what_a_paused_inbox_drops_is_a_fault(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.store.inboxes.force(emulator.open_inbox("orders"), "paused", "user")

    result = cli("put", "orders", "1", "2", "-o", "json")

    assert (result.code, result.json["dropped"]) == (1, 2)
    assert "the inbox is paused" in result.err
    assert cli("put", "orders", "1").out == ""


def test_where_no_emulator_is_it_says_so(cli: Cli, emulator: EmulatorServer) -> None:
    nobody = cli("put", "orders", "1", "--url", "http://127.0.0.1:1")
    assert (nobody.code, nobody.out) == (1, "")
    assert "no emulator answers at http://127.0.0.1:1/" in nobody.err
    assert cli("put", "orders", "1", "--url", "nonsense").code == 1

    other = cli("put", "orders", "1", "--url", f"{emulator.base_url}/v2")
    assert (other.code, "/v2/_emulator/messages is not an emulator" in other.err) == (1, True)
    assert "takes no messages: cause the event in the app" in other.err

    result = cli("put", "orders", "1")
    assert (result.code, "no inbox 'orders'" in result.err) == (3, True)


def test_an_answer_to_put_is_read_in_part_only_and_may_be_of_another_server(cli: Cli) -> None:
    large, other, error = {"ids": [], "rest": "x" * 17_000_000}, {"n": 1}, {"errors": [{"detail": "no"}]}
    with ScriptedServer() as server:
        server.answers = [answer(200, large), answer(400, other), answer(400, error)]
        errors = [cli("put", "orders", "1", "--url", server.url).err for _ in server.answers]
    assert ["is not an emulator" in text for text in errors] == [True, True, False]
    assert "nothing was put: no" in errors[-1]
