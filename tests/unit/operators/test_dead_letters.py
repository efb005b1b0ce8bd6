"""A task of the dead-letter DAG replays its message: one run, with the id and the conf of a dispatch."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, task

from airflow_provider_workflow.dispatch.dead_letters import Reason, conf_of
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from tests.unit.counted import Counted, counted
from tests.unit.fakes import api_error
from tests.unit.workbench import Workbench

__all__ = ["counted"]


def dead_letter(bench: Workbench, target: str | None = "handle") -> dict[str, Any]:
    """The conf of a dead letter of the message ``a``."""
    message: Any = {"id": "a", "payload": "a secret", "message_attributes": {"lease_count": 3}}
    conf = conf_of(message, bench.hook.workflow_conn_id, bench.inbox_id, target, Reason.REJECTED, "a cause")
    stored: dict[str, Any] = json.loads(json.dumps(conf))
    return stored


def replay(bench: Workbench, own: Any = None, **arguments: Any) -> Any:
    operator = WorkflowDeadLetterReplayOperator(task_id="t", **arguments)
    return operator.execute({"ti": bench.ti, "dag_run": SimpleNamespace(conf=own)})


def test_the_message_of_its_own_run_is_replayed_once(bench: Workbench, counted: Counted) -> None:
    own = dead_letter(bench)

    results = [replay(bench, own) for _ in range(2)]

    run_id = bench.run_id("a")
    assert results == [
        {"dag_id": "handle", "run_id": run_id, "outcome": outcome} for outcome in ("started", "existing")
    ]
    [(key, conf)] = bench.supervisor.runs.items()
    assert key == ("handle", run_id)
    assert conf["message"]["payload"] == "a secret"
    assert counted.totals == {"replayed": 1}


def test_a_given_conf_and_target_come_first(bench: Workbench) -> None:
    bench.supervisor.dags.add("other")
    conf = dead_letter(bench, target=None)

    found = replay(bench, {"no": "dead letter"}, conf=conf, trigger_dag_id="other")

    assert found == {"dag_id": "other", "run_id": bench.run_id("a"), "outcome": "started"}


@pytest.mark.parametrize(
    ("own", "named"),
    [(None, "must be a dictionary, not a NoneType"), ({}, "no message_json"), ("text", "not a str")],
)
def test_what_is_no_dead_letter_fails_without_a_retry(bench: Workbench, own: Any, named: str) -> None:
    with pytest.raises(AirflowFailException, match=named):
        replay(bench, own)


def test_without_a_target_it_fails_without_a_retry(bench: Workbench) -> None:
    with pytest.raises(AirflowFailException, match="give trigger_dag_id"):
        replay(bench, dead_letter(bench, target=None))


def test_a_rejection_fails_the_try_and_shows_no_payload(bench: Workbench) -> None:
    bench.supervisor.fail(api_error(400, "value_error", "Invalid input for param x: 'a secret' is too long"))

    with pytest.raises(AirflowException, match="stays a dead letter: value_error") as raised:
        replay(bench, dead_letter(bench))
    assert not isinstance(raised.value, AirflowFailException)
    assert "a secret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_target_that_is_missing_fails_the_try(bench: Workbench) -> None:
    with pytest.raises(TargetError):
        replay(bench, dead_letter(bench, target="missing"))


def test_the_log_says_where_the_run_is(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        replay(bench, dead_letter(bench))

    assert f"the run {bench.run_id('a')} of the DAG handle is started" in caplog.text
    assert "a secret" not in caplog.text


def test_templates_are_rendered(bench: Workbench) -> None:
    conf = dead_letter(bench)
    with DAG("dead", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        operator = WorkflowDeadLetterReplayOperator(
            task_id="t", conf="{{ dag_run.conf }}", trigger_dag_id="{{ params.to }}"
        )
    context: Any = {"dag_run": SimpleNamespace(conf=conf), "params": {"to": "handle"}, "ti": bench.ti}
    operator.render_template_fields(context)

    assert operator.conf == conf
    assert operator.execute(context)["dag_id"] == "handle"


def test_what_looks_like_a_template_in_a_message_is_not_rendered(bench: Workbench) -> None:
    conf = dead_letter(bench)
    conf["message_json"] = conf["message_json"].replace("a secret", "{{ 1 + 1 }}")
    with DAG("dead", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        operator = WorkflowDeadLetterReplayOperator(task_id="t", conf="{{ dag_run.conf }}")
    context: Any = {"dag_run": SimpleNamespace(conf=conf), "ti": bench.ti}
    operator.render_template_fields(context)
    operator.execute(context)

    [started] = bench.supervisor.runs.values()
    assert started["message"]["payload"] == "{{ 1 + 1 }}"


def test_several_dead_letters_are_replayed_by_mapped_tasks() -> None:
    with DAG("dead", schedule=None, start_date=datetime(2025, 1, 1)) as dag:

        @task
        def read() -> list[dict[str, Any]]:
            return []

        WorkflowDeadLetterReplayOperator.partial(task_id="t", trigger_dag_id="handle").expand(conf=read())
    assert dag.get_task("t").is_mapped


def test_a_wrong_target_is_named_where_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"^trigger_dag_id"):
        WorkflowDeadLetterReplayOperator(task_id="t", trigger_dag_id="")
