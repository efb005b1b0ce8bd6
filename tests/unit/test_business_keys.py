"""``once_per``: messages of an inbox with the same business key start one run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.dead_letters import NotReplayableError, Replay
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import KEY_PREFIX, Start, TaskRuns, run_id_of
from airflow_provider_workflow.dispatch.schema import checker
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.counted import Counted
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import INBOX, Workbench


def put(bench: Workbench, message_id: str, key: Any, **attributes: Any) -> None:
    bench.put(message_id, payload={"order_id": key, "of": message_id}, **attributes)


def dispatched(bench: Workbench, **arguments: Any) -> Dispatcher:
    dispatcher = bench.dispatcher(**{"once_per": "payload.order_id", **arguments})
    dispatcher.drain()
    return dispatcher


def ids(dispatcher: Dispatcher) -> dict[str, list[str]]:
    return {
        name: counted["ids"] for name, counted in dispatcher.counts.by_outcome().items() if counted["ids"]
    }


def test_messages_with_the_same_key_start_one_run_and_are_all_acknowledged(
    bench: Workbench, counted: Counted
) -> None:
    for message_id, key in (("a", "A-1"), ("b", "A-2"), ("c", "A-1")):
        put(bench, message_id, key)
    put(bench, "d", "A-2")
    first = dispatched(bench, max_messages=3)
    second = dispatched(bench)

    assert (ids(first), ids(second)) == ({"started": ["a", "b"], "repeated": ["c"]}, {"repeated": ["d"]})
    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {}
    assert (counted.totals["started"], counted.totals["repeated"]) == (2, 2)


def test_a_redelivered_message_finds_its_run(bench: Workbench) -> None:
    for _ in range(2):
        put(bench, "a", "A-1")
    assert ids(dispatched(bench)) == {"started": ["a"], "existing": ["a"]}


@pytest.mark.parametrize("payload", [{}, {"order_id": None}, {"order_id": "null"}, "text", None])
def test_a_message_without_a_key_has_its_own_run(bench: Workbench, payload: Any, counted: Counted) -> None:
    bench.put("a", "b", payload=payload if payload is not None else [])
    dispatched(bench)

    assert set(bench.supervisor.runs) == {("handle", bench.run_id("a")), ("handle", bench.run_id("b"))}
    assert counted.totals["without_key"] == 2


def test_a_changed_expression_makes_other_keys(bench: Workbench) -> None:
    put(bench, "a", 1)
    dispatched(bench)
    bench.put("b", payload={"customer_id": 1})

    assert ids(dispatched(bench, once_per="payload.customer_id")) == {"started": ["b"]}


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
    assert ids(dispatched(bench)) == {"started": ["a", "c", "d", "e", "f"], "repeated": ["b", "g"]}


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

    assert ids(dispatched(bench, targets=targets)) == {"started": ["a"], "repeated": ["b"]}
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
    dispatched(bench)
    put(bench, "b", "A-1")
    bench.supervisor.fail(lost("HTTPStatusError"))

    assert ids(dispatched(bench)) == {"repeated": ["b"]}


def test_a_dead_letter_is_replayed_once_per_key(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    put(bench, "first", "A-0")
    for message_id in ("bad", "worse"):
        put(bench, message_id, "A-1")
    run_id = run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    rejects = [lambda asked: api_error(422) if asked.run_id == run_id else None]
    bench.supervisor.faults.extend(rejects)
    dispatched(bench)
    bench.supervisor.faults.clear()

    replays = [
        Replay.of(conf).start(TaskRuns(bench.ti), None, "a test")
        for conf in list(bench.dead_letters.values())
    ]
    assert replays == [("handle", Start.STARTED), ("handle", Start.EXISTING)]
    assert bench.supervisor.runs["handle", run_id]["message"]["id"] == "bad"
    put(bench, "later", "A-1")
    assert ids(dispatched(bench)) == {"repeated": ["later"]}


@pytest.mark.parametrize(
    "run_id", ["manual__1", "workflow__dead__a", "workflow__../x", "workflow__" + "x" * 250, 5, None]
)
def test_a_dead_letter_starts_no_run_with_an_id_of_somebody_else(bench: Workbench, run_id: Any) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", payload={"order_id": {}})
    dispatched(bench, once_per="abs(payload.order_id)")

    with pytest.raises(NotReplayableError, match="target_run_id"):
        Replay.of({**bench.dead_letters["a"], "target_run_id": run_id})


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_run_that_a_user_started_under_the_id_of_a_key_is_not_taken_for_it(bench: Workbench) -> None:
    key = "handle", run_id_of(json.dumps(["payload.order_id", "A-1"]), bench.inbox_id, KEY_PREFIX)
    bench.supervisor.runs[key] = {"inbox_id": bench.inbox_id, "message": {"id": "x"}}
    bench.supervisor.users[key] = "jane"
    put(bench, "a", "A-1")

    assert ids(dispatched(bench)) == {"rejected": ["a"]}
    assert bench.states == {"a": "leased"}


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
    ],
)
def test_messages_in_which_a_part_of_the_key_is_missing_have_runs_of_their_own(
    bench: Workbench, once_per: str, payload: Any
) -> None:
    bench.put("a", "b", payload=payload)
    assert ids(dispatched(bench, once_per=once_per)) == {"started": ["a", "b"]}
