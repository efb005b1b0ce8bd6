"""``once_per``: messages of an inbox with the same business key start one run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import NOTE_PREFIX
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.replay import NotReplayableError, Outcome, Replay
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import KEY_PREFIX, TaskRuns, run_id_of
from airflow_provider_workflow.dispatch.schema import checker
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.fake_stats import FakeStats
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import INBOX, Workbench


def put(bench: Workbench, message_id: str, key: Any, **attributes: Any) -> None:
    bench.put(message_id, payload={"order_id": key, "of": message_id}, **attributes)


def dispatch(bench: Workbench, **arguments: Any) -> Dispatcher:
    dispatcher = bench.dispatcher(**{"once_per": "payload.order_id", **arguments})
    dispatcher.drain()
    return dispatcher


def ids(dispatcher: Dispatcher) -> dict[str, list[str]]:
    return {
        name: outcome["ids"] for name, outcome in dispatcher.counts.by_outcome().items() if outcome["ids"]
    }


def test_messages_with_the_same_key_start_one_run_and_are_all_acknowledged(
    bench: Workbench, fake_stats: FakeStats
) -> None:
    for message_id, key in (("a", "A-1"), ("b", "A-2"), ("c", "A-1")):
        put(bench, message_id, key)
    put(bench, "d", "A-2")
    first = dispatch(bench, max_messages=3)
    second = dispatch(bench)

    assert (ids(first), ids(second)) == ({"started": ["a", "b"], "repeated": ["c"]}, {"repeated": ["d"]})
    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {}
    assert (fake_stats.totals["started"], fake_stats.totals["repeated"]) == (2, 2)


def test_a_redelivered_message_finds_its_run(bench: Workbench) -> None:
    for _ in range(2):
        put(bench, "a", "A-1")
    assert ids(dispatch(bench)) == {"started": ["a"], "existing": ["a"]}


@pytest.mark.parametrize("payload", [{}, {"order_id": None}, {"order_id": "null"}, "text", None])
def test_a_message_without_a_key_has_its_own_run(
    bench: Workbench, payload: Any, fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.put("a", "b", payload=payload if payload is not None else [])
    dispatch(bench)

    assert set(bench.supervisor.runs) == {("handle", bench.run_id("a")), ("handle", bench.run_id("b"))}
    assert fake_stats.totals["without_key"] == 2
    text = "Inbox orders: once_per is empty for message a, which starts a run of its own"
    assert [line for line in caplog.messages if "once_per" in line] == [text]  # once in a drain


def test_a_changed_expression_makes_other_keys(bench: Workbench) -> None:
    put(bench, "a", 1)
    dispatch(bench)
    bench.put("b", payload={"customer_id": 1})

    assert ids(dispatch(bench, once_per="payload.customer_id")) == {"started": ["b"]}


def test_a_number_and_its_text_are_two_keys_and_a_whole_float_is_none_of_its_own(bench: Workbench) -> None:
    for message_id, key in (
        ("a", 5),
        ("b", 5.0),
        ("c", "5"),
        ("d", True),
        ("e", [5]),
        ("f", {"x": 1, "y": 2}),
    ):
        put(bench, message_id, key)
    put(bench, "g", {"y": 2, "x": 1})
    assert ids(dispatch(bench)) == {"started": ["a", "c", "d", "e", "f"], "repeated": ["b", "g"]}


@pytest.mark.parametrize(
    ("values", "started_ids"),
    [
        ([7, 7.0, "7"], ["0", "2"]),
        ([{"of": [7, {"n": 1e3}]}, {"of": [7.0, {"n": 1000}]}], ["0"]),
        ([1, "1", True, 1.5, 0], ["0", "1", "2", "3", "4"]),
        ([["x", None], ["x", None]], ["0"]),
        (["false", "false", 0.0, 0, -0.0], ["0", "2"]),
    ],
)
def test_numbers_of_a_key_are_compared_by_their_value_at_every_depth(
    bench: Workbench, values: list[Any], started_ids: list[str]
) -> None:
    for number, value in enumerate(values):
        bench.put(str(number), payload={"shop": "s", "value": value})
    assert ids(dispatch(bench, once_per="[payload.shop, payload.value]"))["started"] == started_ids


@pytest.mark.parametrize(
    ("key", "key_json"),
    [
        ("A-1", '"A-1"'),
        (7.0, "7"),
        (1.5, "1.5"),
        (["s", "x", 7], '["s", "x", 7]'),
        ({"b": [1], "a": "\u00e9"}, '{"a": "\\u00e9", "b": [1]}'),
        (" A ", '" A "'),
        (2**70, str(2**70)),
    ],
)
def test_the_run_id_of_a_key_is_that_of_earlier_versions(bench: Workbench, key: Any, key_json: str) -> None:
    put(bench, "a", key)
    dispatch(bench)
    expected = run_id_of(f'["payload.order_id", {key_json}]', bench.inbox_id, KEY_PREFIX)
    assert list(bench.supervisor.runs) == [("handle", expected)]


def test_a_key_of_many_levels_is_a_key() -> None:
    key: Any = 7
    for _ in range(140):
        key = [key]
    routes = Routes("handle", None, "payload.order_id")
    assert routes.key({"payload": {"order_id": key}}) is not None
    assert routes.key({"payload": {"order_id": [*key, []]}}) is None


def test_the_run_id_shows_nothing_of_the_key_and_no_message_or_other_inbox_has_it() -> None:
    run_id = run_id_of(json.dumps(["payload.to", "jane@example.com"]), "inbox", KEY_PREFIX)
    assert run_id.startswith(KEY_PREFIX)
    assert "jane" not in run_id
    assert run_id != run_id_of(json.dumps(["payload.to", "jane@example.com"]), "another", KEY_PREFIX)
    assert run_id_of(run_id.removeprefix("workflow__"), "inbox").count("__") == 1


def test_a_repeated_message_starts_no_run_of_another_dag(bench: Workbench) -> None:
    bench.supervisor.dags |= {"new", "changed"}
    targets = {"new": "payload.of == 'a'", "changed": "payload"}
    for message_id in "ab":
        put(bench, message_id, "A-1")

    assert ids(dispatch(bench, targets=targets)) == {"started": ["a"], "repeated": ["b"]}
    assert [dag_id for dag_id, _ in bench.supervisor.runs] == ["new"]


SECOND = {"new": "payload.of == 'a'", "changed": "payload.of == 'x'"}


@pytest.mark.parametrize("schema", [True, {"properties": {"of": {"const": "a"}}}])
@pytest.mark.parametrize("arguments", [{}, {"match": "payload.of == 'a'"}, {"targets": SECOND}])
@pytest.mark.parametrize("lease_count", [0, 1])
def test_the_run_of_its_key_does_not_accept_a_message(
    bench: Workbench, arguments: dict[str, Any], schema: Any, lease_count: int
) -> None:
    bench.supervisor.dags |= {"new", "changed"}
    bench.allow_dead_letters(after=1)
    put(bench, "a", "A-1")
    put(bench, "b", "A-1", lease_count=lease_count)
    dispatcher = bench.dispatcher(once_per="payload.order_id", **arguments)
    dispatcher.check_payload = checker(schema) if isinstance(schema, dict) else None
    dispatcher.drain()
    assert ids(dispatcher)["started"] == ["a"]
    assert bench.states == ({"b": "leased"} if arguments else {})
    assert list(bench.dead_letters) == ([] if arguments or schema is True else ["b"])


def test_an_answer_that_is_lost_is_found_by_the_key(bench: Workbench) -> None:
    put(bench, "a", "A-1")
    dispatch(bench)
    put(bench, "b", "A-1")
    bench.supervisor.fail(lost("HTTPStatusError"))

    assert ids(dispatch(bench)) == {"repeated": ["b"]}


@pytest.mark.parametrize("version", [(3, 2), (3, 3)])
def test_a_dead_letter_is_replayed_once_per_key(
    bench: Workbench, release: Callable[[int, int], None], version: tuple[int, int]
) -> None:
    release(*version)
    bench.supervisor.user_of_tasks = "jane"
    bench.allow_dead_letters(after=1)
    put(bench, "first", "A-0")
    for message_id in ("bad", "worse"):
        put(bench, message_id, "A-1")
    run_id = run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    rejects = [lambda request: api_error(422) if request.run_id == run_id else None]
    bench.supervisor.faults.extend(rejects)
    dispatch(bench)
    bench.supervisor.faults.clear()

    replays = [
        Replay.of(conf).start(TaskRuns(bench.ti), None, "a test")
        for conf in list(bench.dead_letters.values())
    ]
    assert replays == [("handle", Outcome.STARTED), ("handle", Outcome.EXISTING)]
    assert bench.supervisor.runs["handle", run_id]["message"]["id"] == "bad"
    put(bench, "later", "A-1")
    assert ids(dispatch(bench)) == {"repeated": ["later"]}


@pytest.mark.parametrize(
    "run_id", ["manual__1", "workflow__dead__a", "workflow__../x", "workflow__" + "x" * 250, 5, None]
)
def test_a_dead_letter_starts_no_run_with_an_id_of_somebody_else(bench: Workbench, run_id: Any) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", payload={"order_id": {}})
    dispatch(bench, once_per="abs(payload.order_id)")

    with pytest.raises(NotReplayableError, match="target_run_id"):
        Replay.of({**bench.dead_letters["a"], "target_run_id": run_id})


@pytest.mark.parametrize("version", [(3, 2), (3, 3)])
def test_a_run_that_a_user_started_under_the_id_of_a_key_is_not_taken_for_it(
    bench: Workbench, release: Callable[[int, int], None], version: tuple[int, int]
) -> None:
    release(*version)
    key = "handle", run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    bench.supervisor.runs[key] = {"inbox_id": bench.inbox_id, "message": {"id": "x"}}
    bench.supervisor.users[key] = "jane"
    put(bench, "a", "A-1")

    assert ids(dispatch(bench)) == {"rejected": ["a"]}
    assert bench.states == {"a": "leased"}


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_run_of_a_user_is_not_taken_for_that_of_a_key_although_it_has_its_note(bench: Workbench) -> None:
    key = "handle", run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    bench.supervisor.runs[key] = {"inbox_id": bench.inbox_id, "message": {"id": "x"}}
    bench.supervisor.users[key], bench.supervisor.notes[key] = "jane", f"{NOTE_PREFIX}x`"
    put(bench, "a", "A-1")

    assert ids(dispatch(bench)) == {"rejected": ["a"]}


def test_a_run_without_a_message_is_not_that_of_a_key(bench: Workbench) -> None:
    key = "handle", run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    bench.supervisor.runs[key] = {"inbox_id": bench.inbox_id}
    put(bench, "a", "A-1")

    assert ids(dispatch(bench)) == {"rejected": ["a"]}


def test_on_airflow_3_2_a_run_that_a_task_started_for_a_user_is_known_by_its_note(
    bench: Workbench, release: Callable[[int, int], None]
) -> None:
    release(3, 2)
    bench.supervisor.user_of_tasks = "jane"
    for message_id, count in (("a", 0), ("b", 0), ("a", 1)):
        put(bench, message_id, "A-1", lease_count=count)
    assert ids(dispatch(bench)) == {"started": ["a"], "existing": ["a"], "repeated": ["b"]}


@pytest.mark.parametrize("count", [0, 1])
def test_a_repeat_with_another_payload_is_a_warning_that_names_both_messages(
    bench: Workbench, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    put(bench, "a", "A-1")
    bench.put("b", payload={"order_id": "A-1", "ship_to": "a secret"}, lease_count=count)
    bench.put("c", payload={"of": "a", "order_id": "A-1"}, lease_count=count)
    dispatcher = dispatch(bench, counts=None)

    assert ids(dispatcher) == {"started": ["a"], "repeated": ["b", "c"]}
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [
        "Inbox orders: message b has the business key of message a, and another payload; its run is that of"
        " message a, so this payload starts none"
    ]
    assert "secret" not in caplog.text


def test_payloads_are_compared_as_airflow_stores_them(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    for message_id in "ab":
        bench.put(message_id, payload={"order_id": 1, "huge": 2**70, "whole": 7.0, "text": "\0"})
    dispatch(bench, max_messages=1)
    for conf in bench.supervisor.runs.values():
        conf["message"]["payload_json"] = conf["message"]["payload_json"].replace("7.0", "7")
    caplog.clear()

    assert ids(dispatch(bench)) == {"repeated": ["b"]}
    assert "another payload" not in caplog.text


def test_operator_and_sensor_take_it_and_check_it_where_the_dag_is_parsed(bench: Workbench) -> None:
    for message_id in "ab":
        put(bench, message_id, "A-1")
    operator = WorkflowInboxDispatchOperator(
        task_id="t", inbox=INBOX, trigger_dag_id="handle", once_per="payload.order_id"
    )
    result: Any = operator.execute({"ti": bench.ti})  # type: ignore[typeddict-item]

    assert (result["started"]["count"], result["repeated"]["count"]) == (1, 1)
    with pytest.raises(ValueError, match=r"^once_per reads .order_id., which is no field"):
        WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle", once_per="order_id")
    for expression in ("'payload.order_id'", "`1`", "@"):
        with pytest.raises(ValueError, match=r"^once_per .* reads no field of the message"):
            WorkflowInboxSensor(task_id="t", inbox=INBOX, trigger_dag_id="handle", once_per=expression)
    with pytest.raises(ValueError, match=r"^once_per needs trigger_dag_id"):
        WorkflowInboxSensor(task_id="t", inbox=INBOX, once_per="payload.order_id")


def test_a_template_is_compiled_when_the_task_runs() -> None:
    WorkflowInboxSensor(task_id="t", inbox=INBOX, trigger_dag_id="handle", once_per="{{ var.value.key }}")
    with pytest.raises(ValueError, match=r"^once_per is no valid JMESPath"):
        Routes("handle", None, "&&")


PARTS = "[payload.a && payload.b, payload.c]"


@pytest.mark.parametrize(
    ("once_per", "payload"),
    [
        (PARTS, {"a": False}),
        (PARTS, {"a": True, "b": "", "c": [[None], {"d": {}}]}),
        ("payload.lines[*].{order: order, sku: sku}", {"lines": [{}]}),
        ("[payload.customer, payload.order]", {"customer": "c1", "order": ""}),
        ("[payload.customer, payload.order]", {}),
        ("payload.{customer: customer, order: order}", {"customer": "c1"}),
        ("payload.lines[*].order", {"lines": [{"sku": 1}]}),
        ("payload.is_order && payload.order", {"is_order": False}),
        ("[payload.shop, payload.items[].sku]", {"shop": "s", "items": []}),
        ("[payload.shop, payload.lines[*].id]", {"shop": "s", "lines": [{"qty": 1}]}),
        ("payload.{shop: shop, order: order}", {"shop": "s", "order": {}}),
        ("[payload.shop, payload.ref]", {"shop": "s", "ref": False}),
        ("[payload.shop, payload.ref]", {"shop": "s", "ref": " \t"}),
        ("[payload.shop, payload.ref]", {"shop": "s", "ref": [None]}),
        ("[payload.shop, payload.ref]", {"shop": "s", "ref": [[], {"id": "null"}, [{"no": ""}]]}),
        ("[payload.shop, to_string(payload.ref)]", {"shop": "s"}),
        ("payload.ref", {"ref": "  "}),
    ],
)
def test_messages_in_which_a_part_of_the_key_is_missing_have_runs_of_their_own(
    bench: Workbench, once_per: str, payload: Any
) -> None:
    bench.put("a", "b", payload=payload)
    assert ids(dispatch(bench, once_per=once_per)) == {"started": ["a", "b"]}


def test_airflow_is_asked_once_about_repeats_with_the_same_payload(bench: Workbench) -> None:
    put(bench, "first", "A-1")
    dispatch(bench)
    bench.put(*(f"again{number}" for number in range(5)), payload={"order_id": "A-1"})
    bench.put("other", payload={"order_id": "A-1", "more": 1})
    bench.supervisor.requests.clear()
    dispatcher = dispatch(bench, counts=None)

    assert dispatcher.counts.result["repeated"]["count"] == 6
    assert len(bench.supervisor.requests) == 2
    assert bench.states == {}
