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
    from playwright.sync_api import Browser, Locator, Page

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS = 90.0
"""Timeout of waits on a page."""


def browser_path() -> str | None:
    """The path of a browser; None if none is installed."""
    return next((path for command in COMMANDS if (path := shutil.which(command)) and _starts(path)), None)


def _starts(path: str) -> bool:
    # In some distributions the command only prints what to install.
    return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0


@contextmanager
def launch(path: str) -> Iterator[Browser]:
    """A running browser, closed at the end of the context."""
    from playwright.sync_api import sync_playwright

    # Chromium's sandbox does not work as root, nor in most containers. Only local pages are opened. Pages
    # of a site share a process, so that it compiles Airflow's large UI once, as long as one of them is open.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, chromium_sandbox=False, args=["--process-per-site"]
        )
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

    def trigger_form(self, dag_id: str) -> Form:
        """The form that starts a run of a DAG by hand, with a field for each of its params."""
        self.page.goto(f"{self.url}/dags/{dag_id}")
        self.page.get_by_role("button", name="Trigger").first.click()
        return Form(self.page.get_by_role("dialog"))

    def add_connection(self, conn_id: str) -> Form:
        """The form for a new connection of the type Workflow."""
        self._open_connections()
        self.page.get_by_role("button", name="Add Connection").click()
        form = Form(self.page.get_by_role("dialog"))
        form.fill({"Connection ID": conn_id})
        form.choose("Connection Type", "Workflow")
        return form

    def edit_connection(self, conn_id: str) -> Form:
        """The form of an existing connection."""
        self._open_connections()
        row = self.page.get_by_role("row").filter(has=self.page.get_by_role("cell", name=conn_id, exact=True))
        row.get_by_role("button", name="Edit Connection").click()
        return Form(self.page.get_by_role("dialog"))

    def _open_connections(self) -> None:
        self.page.goto(self.url)
        self.page.get_by_role("button", name="Admin").click()
        self.page.get_by_role("menuitem", name="Connections").click()


@dataclass(frozen=True)
class Form:
    """A form of Airflow; in that of a connection one section is open at a time, before Airflow 3.4."""

    dialog: Locator

    def open(self, section: str) -> None:
        """Open ``Standard Fields`` or ``Extra Fields``, unless it is open. Airflow 3.4 shows both."""
        self.field("Connection ID").wait_for()
        head = self.dialog.get_by_role("button", name=section, exact=True)
        if head.count() and head.get_attribute("aria-expanded") != "true":
            head.click()

    def field(self, label: str) -> Locator:
        """The row of a field: its label, its input and its description."""
        text = self.dialog.page.get_by_text(re.compile(rf"^{re.escape(label)}\s*\*?$"))
        return self.dialog.get_by_role("group").filter(has=text)

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

    def submit(self, button: str) -> None:
        """Press a button, and wait until the form is closed."""
        self.dialog.get_by_role("button", name=button).click()
        self.dialog.wait_for(state="hidden")
