"""What waits for messages, each for its own, and what it starts."""

from datetime import datetime

from airflow.providers.amazon.aws.sensors.sqs import SqsSensor
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetWatcher, BaseOperator

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from benchmarks.fifo import FifoTrigger

START = datetime(2025, 1, 1)
PLACE = "{{ dag_run.conf['place'] }}"
PEERS = {
    # The longest wait of a poll, and no pause between two: a message is received as it arrives.
    "peer_fastest": {"wait_time_seconds": 20, "poke_interval": 0},
    "peer_default": {},
}


class Floor(BaseOperator):
    """The least that a listener can do: a trigger that is told by a pipe, and the supervisor call alone."""

    def execute(self, context):
        self.defer(trigger=FifoTrigger(context["dag_run"].conf["place"]), method_name="start")

    def start(self, context, event):
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import TriggerDagRun

        conf = {"inbox_id": "x" * 36, "message": {"id": "x" * 36, "payload": {"number": 1}}}
        call = TriggerDagRun(dag_id="floor_target", run_id=context["run_id"], conf=conf)
        task_runner.SUPERVISOR_COMMS.send(call)


def rings(name, trigger):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


with DAG("floor", schedule=None, start_date=START):
    Floor(task_id="start_run")

for streams in ("on", "off"):
    with DAG(f"sensor_{streams}", schedule=None, start_date=START):
        WorkflowInboxSensor(
            task_id="start_runs",
            inbox=PLACE,
            trigger_dag_id=f"sensor_{streams}_target",
            deferrable=True,
            poll_interval=5,
            max_poll_interval=5 if streams == "off" else 60,
            wake_on_events=streams == "on",
        )

with DAG("notice", schedule=[rings("notice", WorkflowInboxNoticeTrigger("notice"))], start_date=START):
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="notice", trigger_dag_id="notice_target")

# Its runs are started by the event itself.
with DAG("event_target", schedule=[rings("event", WorkflowInboxEventTrigger("event"))], start_date=START):
    EmptyOperator(task_id="nothing")

for peer, settings in PEERS.items():
    with DAG(peer, schedule=None, start_date=START):
        waits = SqsSensor(task_id="wait", sqs_queue=PLACE, deferrable=True, **settings)
        waits >> TriggerDagRunOperator(
            task_id="start_run", trigger_dag_id=f"{peer}_target", conf={"place": PLACE}
        )

for listener in ("floor", "sensor_on", "sensor_off", "notice", *PEERS):
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(f"{listener}_target", schedule=None, start_date=START, is_paused_upon_creation=True):
        EmptyOperator(task_id="nothing")
