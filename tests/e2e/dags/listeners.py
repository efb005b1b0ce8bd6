"""DAGs that start runs of messages. Inbox, target, and a connection if need be, come with the run's conf."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

DEFERRED = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 2}
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
    "poking_listener_of_a_user": {
        "deferrable": False,
        "poll_interval": 0.5,
        "workflow_conn_id": "workflow_user",
    },
    "poking_listener": {"deferrable": False, "mode": "poke", "poll_interval": 0.5},
    "rescheduling_listener": {"deferrable": False, "mode": "reschedule", "poll_interval": 1},
    "impatient_listener": {**DEFERRED, **RETRIES, "timeout": 4},
    "impatient_soft_listener": {**DEFERRED, "timeout": 4, "soft_fail": True},
    "impatient_poking_listener": {"deferrable": False, "poll_interval": 0.5, "timeout": 2},
}

CONF = {"inbox": "{{ dag_run.conf['inbox'] }}", "trigger_dag_id": "{{ dag_run.conf['target'] }}"}

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
