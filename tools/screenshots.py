"""
``make screenshots``: takes the screenshots of the documentation, of Airflow's UI and of the demo.

It needs Chromium. ``TO=directory`` stores them elsewhere than in the documentation.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser
from rich.console import Console

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.browser import Visit, browser_path, launch, opened
from tools.demo import ENVIRONMENT, HANDLER, INBOX, LISTENER, PAGE, ROOT
from tools.demo_messages import Messages, Verdict, order
from tools.demo_view import table
from tools.local_airflow import LocalAirflow

PICTURES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1200, 760
FORM_HEIGHT = 1800
"""Pixels; tall enough to show a form without scrolling."""
PAGE_HEIGHT = 620
TASK = "start_runs"
BURSTS = (1, 3, 2)
PAYMENTS = ["payment_listener", "handle_payment", "dead_payment"]
"""The DAGs of the example whose messages become dead letters."""
DAG_FILES = ("inbox_listener.py", "inbox_dead_letters.py")
OTHERS = ("payments", "returns", "shipments")
"""The inboxes of the page beside that of the demo."""
PATIENCE_SECONDS = 120.0
FORM = {
    "Base URL": "https://api.example.com",
    "Client ID": "your-client-id",
    "Client secret": "your-client-secret",
}
EXTRA = {"Token URL": "https://api.example.com/oauth/token/"}


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURES, help="directory in which to store them")
    pictures = parser.parse_args().to
    path = browser_path()
    if path is None:
        raise SystemExit("No browser is installed. On Debian and Ubuntu: apt install chromium")
    pictures.mkdir(exist_ok=True)
    with _working() as (service, airflow), launch(path) as browser:
        messages = Messages(service, airflow.api, INBOX, HANDLER)
        for size in BURSTS:
            _work_through(airflow, messages, size)
        verdict = Verdict.of(service.summary(INBOX)["messages"], airflow.api.dag_runs(HANDLER))
        _terminal(browser, messages, airflow.url, verdict, pictures)
        _form(browser, airflow.url, pictures)
        _links(browser, airflow, pictures)
        _inboxes(browser, service, airflow, pictures)


@contextmanager
def _working() -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    with tempfile.TemporaryDirectory() as home, EmulatorServer() as service:
        # Before their listeners: one whose inbox was missing looks for it again after five minutes.
        for name in (INBOX, *OTHERS):
            service.open_inbox(name)
        connections = {"workflow_default": service.connection_json()}
        # Others would show that they have no inboxes.
        folder = Path(home, "dags")
        folder.mkdir()
        for name in DAG_FILES:
            shutil.copy(ROOT / "dags_examples" / name, folder)
        with LocalAirflow(Path(home, "airflow"), folder, connections, ENVIRONMENT) as airflow:
            airflow.wait_for_dags([LISTENER, HANDLER])
            yield service, airflow


def _work_through(airflow: LocalAirflow, messages: Messages, size: int) -> None:
    first = len(messages.rows) + 1
    messages.put(*map(order, range(first, first + size)))

    def done() -> bool:
        messages.look()
        return messages.all_done()

    airflow.api.wait_until(done, PATIENCE_SECONDS, "all messages to have had their runs")


def _terminal(browser: Browser, messages: Messages, url: str, verdict: Verdict, pictures: Path) -> None:
    """The output of the demo in a terminal."""
    console = Console(record=True, width=104, highlight=False, file=io.StringIO(), force_terminal=True)
    console.print("$ make demo")
    console.print(table(messages, url + PAGE))
    console.print(verdict.text)
    with opened(browser, WIDTH, HEIGHT) as page:
        page.set_content(console.export_html(inline_styles=True))
        page.locator("pre").screenshot(path=pictures / "demo.png")


def _form(browser: Browser, url: str, pictures: Path) -> None:
    with opened(browser, WIDTH, FORM_HEIGHT) as page:
        form = Visit(page, url).add_connection("workflow_default")
        form.fill(FORM)
        form.open("Extra Fields")
        form.fill(EXTRA)
        form.dialog.screenshot(path=pictures / "connection-form-extra.png")
        # Last, as the form shows an error until the required extra field has a value.
        form.open("Standard Fields")
        form.dialog.screenshot(path=pictures / "connection-form.png")


def _links(browser: Browser, airflow: LocalAirflow, pictures: Path) -> None:
    """The graph of the example, the link of its task, and the page of the link."""
    (*_, last) = [run for run in airflow.api.dag_runs(LISTENER) if run["state"] == "success"]
    with opened(browser, WIDTH, HEIGHT) as page:
        page.add_init_script("localStorage.setItem('default_dag_view', JSON.stringify('graph'))")
        link = Visit(page, airflow.url).extra_link(LISTENER, last["dag_run_id"], TASK, "Started DAG runs")
        link.wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=pictures / "listener-links.png")
        link.click()
        page.wait_for_url(f"**/dags/{HANDLER}/runs**")
        # The graph is drawn some time after its data was loaded.
        page.locator(".react-flow__node").first.wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=pictures / "started-runs.png")


def _inboxes(browser: Browser, service: EmulatorServer, airflow: LocalAirflow, pictures: Path) -> None:
    """The page Inboxes: the list, the messages of an inbox, its dead letters."""
    airflow.wait_for_dags(PAYMENTS)
    service.put("shipments", *({"number": number} for number in range(3)))
    # The DAG of dead letters handles the first one; the second one waits.
    _wait_for_runs(service, airflow, {"handle_payment": 1, "dead_payment": 1})
    airflow.api.pause("dead_payment")
    _wait_for_runs(service, airflow, {"handle_payment": 2, "dead_payment": 2})
    with opened(browser, WIDTH, PAGE_HEIGHT) as page:
        page.goto(airflow.url)
        page.get_by_role("button", name="Browse").click()
        page.get_by_role("menuitem", name="Inboxes").click()
        page.get_by_role("link", name="payments").wait_for()
        # The numbers of an inbox come last.
        page.locator("tbody tr td:nth-child(3)").filter(has_text=re.compile(r"\d")).nth(
            len(OTHERS)
        ).wait_for()
        page.screenshot(path=pictures / "page-inboxes.png")
        page.get_by_role("link", name=INBOX).click()
        page.get_by_role("row").filter(has_text="started").first.wait_for()
        page.locator(".wf-stat .wf-badge").first.wait_for()
        page.screenshot(path=pictures / "page-messages.png")
        page.goto(f"{airflow.url}{PAGE}")
        page.get_by_role("link", name="payments").click()
        page.get_by_role("heading", name="payments").wait_for()
        page.get_by_role("link", name="Dead letters", exact=True).click()
        page.get_by_role("button", name="Replay").first.wait_for()
        page.locator(".wf-stat .wf-badge").first.wait_for()
        page.screenshot(path=pictures / "page-dead-letters.png")


def _wait_for_runs(service: EmulatorServer, airflow: LocalAirflow, counts: Mapping[str, int]) -> None:
    """Put a payment and one without an amount, and wait for so many runs of each DAG."""
    service.put("payments", {"amount": 20}, {"total": 20})
    airflow.api.wait_until(
        lambda: counts == {dag_id: len(airflow.api.dag_runs(dag_id)) for dag_id in counts},
        PATIENCE_SECONDS,
        f"DAG runs {counts}",
    )


if __name__ == "__main__":
    main()
