"""The example DAGs with a real service; CONTRIBUTING.md says what the environment must name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.examples import EXAMPLES
from tests.system.service import PATIENCE_SECONDS, RealService, until
from tests.unit.documents import ROOT
from tools.airflow_settings import create_database, environment

RUN = {
    "guess_and_templates.py": "suggest_workflows",
    "inbox_batches.py": "store_measurements",
    "inbox_dag.py": "welcome_listener",
    "inbox_dead_letters.py": "payment_listener",
    "inbox_listener.py": "order_listener",
    "inbox_messages.py": "collect_readings",
    "inbox_notice.py": "dispatch_deliveries",
    "inbox_routing.py": "event_router",
    "inbox_work_then_acknowledge.py": "work_then_acknowledge",
    "manage_inboxes.py": "maintain_tickets",
}
"""By example: the DAG that works on its inbox."""
NOT_RUN = {"inbox_events.py": "its messages come with asset events, which `airflow dags test` does not make"}
INBOXES = {file: example.inbox for file, example in EXAMPLES.items()} | {"manage_inboxes.py": "tickets"}


@pytest.fixture(scope="module")
def service() -> Iterator[RealService]:
    service = RealService.of_environment()
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", service.connection)
        yield service


@pytest.fixture(scope="module")
def airflow(service: RealService, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Runs a command of an Airflow of its own, which has the examples with inboxes of these tests."""
    home = tmp_path_factory.mktemp("system")
    folder = home / "dags"
    folder.mkdir()
    for file, inbox in INBOXES.items():
        text = (ROOT / "dags_examples" / file).read_text()
        if EXAMPLES[file].runs_here:
            (folder / file).write_text(text.replace(f'"{inbox}"', f'"{service.prefix}{inbox}"'))
    env = environment(home, folder, 8080, {"workflow_default": service.connection})
    env |= {"PYTHONPATH": str(ROOT), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db"}
    create_database(sys.executable, home, env)

    def run(*arguments: str) -> None:
        command = [sys.executable, "-m", "airflow", *arguments]
        process = subprocess.run(
            command,
            cwd=home,
            env=env,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-5000:]

    run("dags", "reserialize")
    return run


@pytest.mark.parametrize("file", RUN)
def test_an_example_works_on_the_messages_of_a_real_inbox(
    file: str, service: RealService, airflow: Callable[..., None]
) -> None:
    example = EXAMPLES[file]
    if not example.runs_here:
        pytest.skip(f"needs Airflow {example.since[0]}.{example.since[1]}")
    if INBOXES[file] is None:
        airflow("dags", "test", RUN[file])
        return
    with service.inbox(f"{service.prefix}{INBOXES[file]}") as inbox:
        if example.put:
            service.send(inbox, example.put)
        airflow("dags", "test", RUN[file])
        until(lambda: set(service.statuses(inbox)) <= {"acked"}, f"all messages of {inbox} acknowledged")
