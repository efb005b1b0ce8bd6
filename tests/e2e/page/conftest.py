"""Fixtures of the tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.page.fake_api import FakeAPI
from tests.page.host import Host, airflow_ui, serving
from tools.browser import browser_path, launch, opened

BROWSER = browser_path()
UI = airflow_ui()


@pytest.fixture(scope="package")
def browser() -> Iterator:
    if BROWSER is None:
        pytest.skip("no browser is installed (on Debian: apt install chromium)")
    with launch(BROWSER) as browser:
        yield browser


@pytest.fixture
def api() -> FakeAPI:
    return FakeAPI()


@pytest.fixture(scope="package")
def server() -> Iterator[Host]:
    """One server for all tests, so that the browser keeps Airflow's large UI."""
    if UI is None:
        pytest.skip("the installed Airflow has no UI")
    with serving(UI, FakeAPI()) as host:
        yield host


@pytest.fixture
def host(server, api) -> Host:
    server.api = api
    server.requests.clear()
    return server


@pytest.fixture(scope="package")
def context(browser, server) -> Iterator:
    """A browser context with a page that stays open, as ``launch`` recommends."""
    with opened(browser, 1400, 900) as first:
        first.goto(f"{server.url}static/pin_32.png")
        yield first.context


@pytest.fixture
def page(context, tmp_path) -> Iterator:
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page
    finally:
        # Shows why a test failed.
        page.screenshot(path=tmp_path / "page.png")
        page.close()
    assert errors == []


@pytest.fixture
def visit(page, host) -> Callable[[str], Any]:
    """Opens a place of the page by its query string."""

    def open_place(query: str = "") -> Any:
        page.goto(f"{host.url}plugin/workflow-inboxes?{query}")
        page.locator(".wf-root").wait_for()
        return page

    return open_place
