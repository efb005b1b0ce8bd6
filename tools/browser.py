"""Airflow's UI as a user sees it, in the system's headless Chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Response

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS = 90.0
"""Timeout of waits on a page."""
STARTED = re.compile("^workflow__")
"""The ids of runs that messages started."""


def installed() -> str | None:
    """The path of a browser; None if none is installed."""
    return next((path for command in COMMANDS if (path := shutil.which(command)) and _starts(path)), None)


def _starts(path: str) -> bool:
    # In some distributions the command only prints what to install.
    return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """A running browser, closed at the end of the context."""
    from playwright.sync_api import sync_playwright

    # Chromium's sandbox does not work as root, nor in most containers. Only local pages are opened.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, width: int = 1400, height: int = 1400) -> Iterator[Page]:
    """
    A page with a new browser context.

    :param width: width of the page in pixels, as ``height``.
    """
    context = browser.new_context(locale="en-US", viewport={"width": width, "height": height})
    try:
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        yield context.new_page()
    finally:
        context.close()


@dataclass(frozen=True)
class Visit:
    """
    Actions of a user in Airflow's UI.

    :param url: URL of Airflow.
    """

    page: Page
    url: str

    def extra_link(self, dag_id: str, run_id: str, task_id: str, name: str) -> Locator:
        """An extra link of a task, on its tab Details."""
        with self.page.expect_response(re.compile(f"/taskInstances/{task_id}/links")):
            self.page.goto(f"{self.url}/dags/{dag_id}/runs/{quote(run_id, safe='')}/tasks/{task_id}")
            self.page.get_by_role("link", name="Details", exact=True).click()
        return self.page.get_by_role("link", name=name, exact=True)

    def run_ids(self, count: int) -> list[str]:
        """The ids in the table of DAG runs, once it has this many rows."""
        from playwright.sync_api import expect

        ids = self.page.get_by_role("table").get_by_role("link", name=STARTED)
        expect(ids).to_have_count(count, timeout=PATIENCE_SECONDS * 1000)
        return ids.all_inner_texts()

    def trigger_form(self, dag_id: str) -> TriggerForm:
        """The form that starts a run of a DAG by hand."""
        self.page.goto(f"{self.url}/dags/{dag_id}")
        self.page.get_by_role("button", name="Trigger").first.click()
        return TriggerForm(self.page.get_by_role("dialog"))

    def add_connection(self, conn_id: str) -> ConnectionForm:
        """The form for a new connection of the type Workflow."""
        self._open_connections()
        self.page.get_by_role("button", name="Add Connection").click()
        form = ConnectionForm(self.page.get_by_role("dialog"))
        form.fill({"Connection ID": conn_id})
        form.choose("Connection Type", "Workflow")
        return form

    def edit_connection(self, conn_id: str) -> ConnectionForm:
        """The form of an existing connection."""
        self._open_connections()
        row = self.page.get_by_role("row").filter(has=self.page.get_by_role("cell", name=conn_id, exact=True))
        row.get_by_role("button", name="Edit Connection").click()
        return ConnectionForm(self.page.get_by_role("dialog"))

    def _open_connections(self) -> None:
        self.page.goto(self.url)
        self.page.get_by_role("button", name="Admin").click()
        self.page.get_by_role("menuitem", name="Connections").click()


@dataclass(frozen=True)
class ConnectionForm:
    """The form of a connection; before Airflow 3.4 one section is open at a time."""

    dialog: Locator

    def open(self, section: str) -> None:
        """Open ``Standard Fields`` or ``Extra Fields``, unless it is open. Airflow 3.4 shows both."""
        self.field("Connection ID").wait_for()
        head = self.dialog.get_by_role("button", name=section, exact=True)
        if head.count() and head.get_attribute("aria-expanded") != "true":
            head.click()

    def field(self, label: str) -> Locator:
        """The row of a field: its label, its input and its description."""
        return self.dialog.get_by_role("group").filter(has=_labelled(self.dialog, label))

    def input(self, label: str) -> Locator:
        """The input of a field. Some labels of Airflow's form are not associated with their inputs."""
        row = self.field(label)
        return row.get_by_role("textbox").or_(row.get_by_role("spinbutton")).or_(row.get_by_role("combobox"))

    def fill(self, values: Mapping[str, str]) -> None:
        """Type into fields, by their labels."""
        for label, value in values.items():
            self.input(label).fill(value)

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a field."""
        self.input(label).click()
        self.dialog.page.get_by_role("option", name=option, exact=True).click()

    def save(self) -> None:
        """Save, and wait until the form is closed."""
        self.dialog.get_by_role("button", name="Save").click()
        self.dialog.wait_for(state="hidden")


@dataclass(frozen=True)
class TriggerForm:
    """The form that starts a run, with a field for each param of the DAG."""

    dialog: Locator

    def param(self, title: str) -> Locator:
        """The row of a param: its title, its input and its description."""
        return self.dialog.get_by_role("group").filter(has=_labelled(self.dialog, title))

    def wait_for_json(self, title: str, part: str) -> None:
        """
        Wait until the JSON of a param that is an object shows this part.

        :param part: JSON with a space wherever the page has spaces or a new line.
        """
        from playwright.sync_api import expect

        expect(self._editor(title)).to_contain_text(part, timeout=PATIENCE_SECONDS * 1000)

    def retype(self, title: str, word: str, replacement: str) -> None:
        """Select a word of the JSON of a param, and type over it."""
        self._editor(title).get_by_text(word, exact=True).dblclick()
        self.dialog.page.keyboard.type(replacement)

    def trigger(self) -> str:
        """Start the run, and wait until its page is open; the id of the run."""
        with self.dialog.page.expect_response(_starts_a_run) as started:
            self.dialog.get_by_role("button", name="Trigger").click()
        run_id = str(started.value.json()["dag_run_id"])
        self.dialog.page.wait_for_url(f"**/runs/{run_id}")
        return run_id

    def _editor(self, title: str) -> Locator:
        # Airflow 3.2 has another editor than later versions.
        return self.param(title).locator(".view-lines, .cm-content")


def _labelled(dialog: Locator, label: str) -> Locator:
    return dialog.page.get_by_text(re.compile(rf"^{re.escape(label)}\s*\*?$"))


def _starts_a_run(answer: Response) -> bool:
    return answer.request.method == "POST" and answer.url.endswith("/dagRuns")
