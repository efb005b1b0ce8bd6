"""
DAGs that start runs of messages, or take them into their own run. Inbox, target, and a connection if need be,
come with the run's conf.
"""

import json
from datetime import timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

DEFERRED = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 2}
POKING = {"deferrable": False, "poll_interval": 0.5}
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=3), "retry_exponential_backoff": False}
THROUGH = {"workflow_conn_id": "{{ dag_run.conf['conn_id'] }}"}
"""Through a connection that a test has made."""
ONCE = {"retries": 0}
"""One try, where a DAG below says nothing else."""
SENSORS = {
    "listener": DEFERRED,
    "listener_with_retries": {**DEFERRED, **RETRIES},
    "listener_that_logs": {**DEFERRED, "on_rejected": "log"},
    "listener_of_cards": {**DEFERRED, "match": "starts_with(payload.card, '4')"},
    "listener_with_room_for_three": {**DEFERRED, "max_unfinished_runs": 3},
    "listener_with_a_wrong_secret": {**DEFERRED, "workflow_conn_id": "workflow_wrong"},
    "listener_through": {**DEFERRED, **RETRIES, **THROUGH, "retries": 30},
    "listener_of_a_user": {**DEFERRED, "workflow_conn_id": "workflow_user"},
    "poking_listener_of_a_user": {**POKING, "workflow_conn_id": "workflow_user"},
    "poking_listener": {**POKING, "mode": "poke"},
    "rescheduling_listener": {"deferrable": False, "mode": "reschedule", "poll_interval": 1},
    "impatient_listener": {**DEFERRED, **RETRIES, "timeout": 4},
    "impatient_soft_listener": {**DEFERRED, "timeout": 4, "soft_fail": True},
    "impatient_poking_listener": {**POKING, "timeout": 2},
}

INBOX = {"inbox": "{{ dag_run.conf['inbox'] }}"}
CONF = {**INBOX, "trigger_dag_id": "{{ dag_run.conf['target'] }}"}

for dag_id, arguments in SENSORS.items():
    with DAG(dag_id, schedule=None, max_active_runs=20, default_args=ONCE):
        WorkflowInboxSensor(task_id="work", **CONF, **arguments)

DISPATCHERS = {
    "dispatcher": {},
    "dispatcher_through": THROUGH,
    "dispatcher_with_retries": RETRIES,
    "dispatcher_with_dead_letters": {
        **RETRIES,
        "dead_letter_dag_id": "dead_letters",
        "dead_letter_after": 1,
    },
}
for dag_id, arguments in DISPATCHERS.items():
    with DAG(dag_id, schedule=None, max_active_runs=20, default_args=ONCE):
        WorkflowInboxDispatchOperator(task_id="work", **CONF, **arguments)


@task
def read(value):
    """What a later task gets, as ASCII text that no database and no log can change."""
    return json.dumps(value)


if airflow_release() >= (3, 3):
    for dag_id, arguments in {"receiver": {}, "receiver_that_logs": {"on_rejected": "log"}}.items():
        with DAG(dag_id, schedule=None):
            read(WorkflowInboxSensor(task_id="work", **INBOX, **DEFERRED, **RETRIES, **arguments).output)
