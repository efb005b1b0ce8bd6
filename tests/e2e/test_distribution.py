"""The wheel and the sdist: what is in them, and what a plain Airflow does with them, and without."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path
from typing import Any

import pytest

from airflow_provider_workflow import __version__
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.lineage import FACET as STARTED_RUNS
from tests.e2e.stage import Inbox, Stage
from tests.posts import SPANS, Posts, post_server
from tests.unit.documents import blocks
from tools.browser import browser_path, launch, opened
from tools.local_airflow import LocalAirflow

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_workflow"
PROJECT = "airflow-provider-workflow"
EXTRA = "common-messaging"
"""Without it Airflow has no queues."""
OPENLINEAGE = "apache-airflow-providers-openlineage"
LINEAGE = "/api/v1/lineage"
ORDER = ["lease signups", "start_run signups", "acknowledge signups"]
PAYLOAD = "payload-of-a-customer"
BUILD_SECONDS = 300
INSTALL_SECONDS = 900
COMMAND_SECONDS = 120
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
SHOWN = {
    "list": PROJECT,
    "hooks": "workflow",
    "links": f"{PACKAGE}.links.WorkflowEditorLink",
    "queues": f"{PACKAGE}.queues.inbox.WorkflowInboxMessageQueueProvider",
    "triggers": f"{PACKAGE}.triggers.inbox",
    "configs": PROJECT,
    "behaviours": "workflow",
}
"""What a subcommand of ``airflow providers`` says of this one."""
SHOW = """
import sys
from airflow.cli.cli_parser import get_parser
for command in sys.argv[1:]:
    print("==", command)
    arguments = get_parser().parse_args(["providers", command])
    arguments.func(arguments)
"""
"""Runs these subcommands, one after the other: each process of Airflow takes seconds to begin."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make dist`` makes; it checks what a package index would refuse."""
    folder = tmp_path_factory.mktemp("dist")
    run(["make", "--silent", "dist", f"DIST={folder}"], BUILD_SECONDS, cwd=ROOT)
    return folder


def test_the_wheel_holds_the_package_its_licence_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{PACKAGE}-{__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    metadata = {f"{PACKAGE}-{__version__}.dist-info/{name}" for name in METADATA}
    # Not ``example_dags``: Airflow would load them, and one could replace a user's DAG with the same id.
    examples = {f"{PACKAGE}/{path}" for path in files_of_repository("dags_examples")}
    assert names == metadata | files_of_repository(PACKAGE) | examples
    assert f"{PACKAGE}/py.typed" in names


def test_the_sdist_holds_what_the_wheel_is_made_of_and_the_documentation(dist: Path) -> None:
    folder = f"{PACKAGE}-{__version__}"
    with tarfile.open(dist / f"{folder}.tar.gz") as sdist:
        names = {name.removeprefix(f"{folder}/") for name in sdist.getnames()}
    texts = {f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "README", "SECURITY")} | {"LICENSE"}
    built_from = {"PKG-INFO", "pyproject.toml"}
    folders = files_of_repository(PACKAGE, "constraints", "docs", "dags_examples")
    # The build backend adds what tells it which files there are.
    assert names - {".gitignore"} == texts | built_from | folders


@dataclass(frozen=True)
class PlainAirflow:
    """
    :param folder: of an environment with Airflow and what we need beside it, as the pins have it.
    """

    folder: Path

    def run(self, *command: str, seconds: float = COMMAND_SECONDS) -> str:
        """Run a program of the environment, in an Airflow home of its own; what it prints."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        env |= {"AIRFLOW_HOME": str(self.folder / "home"), "COLUMNS": "500"}
        return run([str(self.folder / "bin" / command[0]), *command[1:]], seconds, cwd=self.folder, env=env)

    def pip(self, *arguments: str) -> None:
        """Run pip."""
        self.run("python", "-m", "pip", "--quiet", *arguments, seconds=INSTALL_SECONDS)

    def projects(self) -> set[str]:
        """Names of those that are installed."""
        return {
            line.split("==")[0]
            for line in self.run("python", "-m", "pip", "list", "--format", "freeze").splitlines()
        }

    def files(self) -> set[str]:
        """All files of the environment, without what Python compiles."""
        every = (str(file.relative_to(self.folder)) for file in self.folder.rglob("*"))
        return {path for path in every if "__pycache__" not in path and not path.startswith("home")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PlainAirflow:
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder, with_pip=True, symlinks=True)
    airflow = PlainAirflow(folder)
    # All that is installed here but this project, without a second installation.
    shared = tmp_path_factory.mktemp("shared")
    for installed_here in Path(get_path("purelib")).iterdir():
        if PACKAGE not in installed_here.name and installed_here.name != "__pycache__":
            (shared / installed_here.name).symlink_to(installed_here)
    site_packages = Path(
        airflow.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (site_packages / "shared.pth").write_text(str(shared))
    program = folder / "bin" / "airflow"
    program.write_text(f"#!{folder / 'bin' / 'python'}\nfrom airflow.__main__ import main\n\nmain()\n")
    program.chmod(0o755)
    return airflow


def test_a_plain_airflow_shows_the_wheel_once_it_is_installed_and_nothing_once_it_is_not(
    dist: Path, plain: PlainAirflow
) -> None:
    assert PROJECT not in plain.run("airflow", "providers", "list")
    projects, files = plain.projects(), plain.files()

    plain.pip("install", "--constraint", str(pins()), f"{next(dist.glob('*.whl'))}[{EXTRA}]")

    assert plain.projects() == projects | {PROJECT}
    assert __version__ in plain.run("airflow", "providers", "get", PROJECT)
    parts = plain.run("python", "-c", SHOW, *SHOWN).split("== ")[1:]
    assert not [text for text, part in zip(SHOWN.values(), parts, strict=True) if text not in part]
    assert "inboxes" in plain.run("airflow", "workflow", "--help")
    assert __version__ in plain.run("airflow-workflow", "--version")

    plain.pip("uninstall", "--yes", PROJECT)

    assert plain.files() == files
    assert PROJECT not in plain.run("airflow", "providers", "list")


@contextmanager
def first_dag(plain: PlainAirflow, wheel: str, home: Path, **settings: str) -> Iterator[Stage]:
    """
    The plain Airflow with the wheel, and the first DAG of the README as its only DAG file.

    :param settings: environment variables of all processes.
    """
    plain.pip("install", "--constraint", str(pins()), wheel)
    dags_folder = home / "dags"
    dags_folder.mkdir()
    (dags_folder / "signups.py").write_text(blocks("README.md", "python")[0])
    python = plain.folder / "bin/python"
    with EmulatorServer() as emulator:
        emulator.open_inbox("signups")
        connections = {"workflow_default": emulator.connection_json()}
        # Nothing of this checkout.
        env = {"PYTHONPATH": "", **settings}
        with LocalAirflow(
            home / "airflow", dags_folder, connections, env, python=python, log_level="INFO"
        ) as airflow:
            airflow.wait_for_dags(["welcome", "welcome_listener"])
            yield Stage(airflow, emulator)
    plain.pip("uninstall", "--yes", PROJECT)


@pytest.fixture(scope="class")
def stage(dist: Path, plain: PlainAirflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with first_dag(plain, str(next(dist.glob("*.whl"))), tmp_path_factory.mktemp("first")) as first_stage:
        yield first_stage


class TestTheFirstDagOfTheReadmeWithTheWheelAlone:
    def test_it_runs_once_for_each_message(self, stage: Stage) -> None:
        signups = Inbox.open(stage.emulator, "signups")
        names = dict(zip(signups.put({"name": "Ada"}, {"name": "Grace"}), ("Ada", "Grace"), strict=True))

        stage.wait_until_succeeded(signups, list(names), "welcome")
        for message_id, name in names.items():
            log = stage.airflow.api.task_log("welcome", signups.run_id_of(message_id), "welcome")
            assert f"Welcome, {name}" in log
        stage.until(signups.all_acknowledged, "the acknowledgements")
        assert signups.lease_counts == [1]

    def test_the_page_inboxes_shows_the_listener_and_the_run_of_a_message(self, stage: Stage) -> None:
        path = browser_path()
        if path is None:
            pytest.skip("no browser is installed (on Debian: apt install chromium)")
        signups = Inbox.open(stage.emulator, "signups")
        (message_id,) = signups.put({"name": PAYLOAD})
        run_id = signups.run_id_of(message_id)
        runs = stage.airflow.api.dag_runs
        stage.until(
            lambda: run_id in {dag_run["dag_run_id"] for dag_run in runs("welcome")}, "the run of a message"
        )

        with launch(path) as browser, opened(browser) as page:
            page.goto(stage.airflow.url)
            page.get_by_role("button", name="Browse").click()
            page.get_by_role("menuitem", name="Inboxes").click()
            page.get_by_role("row").filter(has_text="welcome_listener").wait_for()
            page.get_by_role("link", name="signups").click()
            # A row has the beginning of the id.
            row = page.get_by_role("row").filter(has_text=message_id[:8]).filter(has_text="started")
            row.get_by_role("link", name="welcome", exact=True).click()
            page.wait_for_url(f"**/dags/welcome/runs/{run_id}**")


@pytest.fixture
def observed_stage(dist: Path, plain: PlainAirflow, tmp_path: Path) -> Iterator[tuple[Stage, Posts]]:
    """The same with the extra ``openlineage``; Airflow sends spans and lineage events to one server."""
    if OPENLINEAGE not in pins().read_text():
        pytest.skip(f"{pins().name} has no {OPENLINEAGE}")
    with post_server() as posts:
        settings = {
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": posts.url + SPANS,
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
                {"type": "http", "url": posts.url, "endpoint": LINEAGE.strip("/")}
            ),
        }
        wheel = f"{next(dist.glob('*.whl'))}[openlineage]"
        with first_dag(plain, wheel, tmp_path, **settings) as stage:
            yield stage, posts
        plain.pip("uninstall", "--yes", OPENLINEAGE)


@pytest.mark.nightly
def test_a_collector_gets_spans_of_the_dispatch_and_a_lineage_service_its_inbox_and_runs(
    observed_stage: tuple[Stage, Posts],
) -> None:
    stage, posts = observed_stage
    signups = Inbox.open(stage.emulator, "signups")
    (message_id,) = signups.put({"name": PAYLOAD})
    stage.wait_until_succeeded(signups, [message_id], "welcome")

    def spans() -> dict[str, Any] | None:
        spans_by_name = {span.name: span for span in posts.spans()}
        return spans_by_name if spans_by_name.keys() >= set(ORDER) else None

    spans_of_dispatch = stage.until(spans, "the spans of the dispatch")
    assert spans_of_dispatch
    lease, start, acknowledge = (spans_of_dispatch[name] for name in ORDER)
    task = next(span for span in posts.spans() if span.span_id == start.parent_span_id)
    of_task = {attribute.key: attribute.value.string_value for attribute in task.attributes}
    assert of_task["airflow.dag_id"] == "welcome_listener"
    assert {span.trace_id for span in (lease, start, acknowledge)} == {task.trace_id}

    def events() -> list[Any]:
        return [json.loads(body) for body in posts.bodies(LINEAGE)]

    def event() -> dict[str, Any] | None:
        return next((candidate for candidate in events() if STARTED_RUNS in candidate["run"]["facets"]), None)

    lineage = stage.until(event, "the lineage event of the dispatch")
    assert lineage
    assert lineage["eventType"] == "COMPLETE"
    assert lineage["job"]["name"].startswith("welcome_listener.")
    host = stage.emulator.base_url.partition("://")[2]
    assert [(dataset["namespace"], dataset["name"]) for dataset in lineage["inputs"]] == [
        (f"workflow://{host}", "signups")
    ]
    facet = lineage["run"]["facets"][STARTED_RUNS]
    assert (facet["dagIds"], facet["startedRunIds"]) == (["welcome"], [signups.run_id_of(message_id)])
    assert {"_producer", "_schemaURL"} <= facet.keys()

    def parent() -> dict[str, Any] | None:
        of_run = (
            candidate["run"]["facets"] for candidate in events() if candidate["job"]["name"] == "welcome"
        )
        return next((facets["parent"] for facets in of_run if "parent" in facets), None)

    parent_event = stage.until(parent, "the lineage event of the started run")
    assert parent_event
    assert (parent_event["run"]["runId"], parent_event["job"]["name"]) == (
        lineage["run"]["runId"],
        lineage["job"]["name"],
    )

    assert stage.emulator.client_secret.encode() not in b"".join(posts.bodies())
    # Airflow's own lineage has the conf of every DAG run, so of those of the target.
    of_listener = [
        candidate for candidate in events() if candidate["job"]["name"].startswith("welcome_listener")
    ]
    assert of_listener
    assert PAYLOAD not in json.dumps(of_listener)
    assert PAYLOAD.encode() not in b"".join(posts.bodies(SPANS))


def files_of_repository(*folders: str) -> set[str]:
    """The files of the repository that are in these folders."""
    return set(run(["git", "ls-files", *folders], COMMAND_SECONDS, cwd=ROOT).splitlines())


def pins() -> Path:
    """Those that this environment was made with."""
    return ROOT / "constraints/airflow-{}.{}.txt".format(*airflow_release())


def run(command: list[str], seconds: float, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command prints, with what it complains of where it fails."""
    process = subprocess.run(
        command, cwd=cwd, env=env, timeout=seconds, check=False, capture_output=True, text=True
    )
    assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
    return process.stdout
