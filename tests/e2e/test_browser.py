"""Airflow's page in a real browser: links that lead somewhere, the forms of a connection and of a run."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Run, Stage
from tools.airflow_api import AirflowAPIError
from tools.browser import PATIENCE_SECONDS as ON_PAGE_SECONDS
from tools.browser import Visit, browser_path, launch, opened

BROWSER = browser_path()
CONN_ID = "made_in_the_page"
DEFAULTS = {
    "scope": "external",
    "inbox_path": "/trigger-inbox/v1",
    "templates_path": "/v1/workflow-templates",
    "verify": "true",
    "grant": "client_credentials",
}
"""What the form fills in, where nobody changes it."""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no browser is installed (on Debian: apt install chromium)"
)
since_3_3 = pytest.mark.since(3, 3, "the page that is visited here")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    assert BROWSER
    with launch(BROWSER) as browser:
        yield browser


@pytest.fixture
def visit(browser, airflow, tmp_path) -> Iterator[Visit]:
    with opened(browser) as page:
        try:
            yield Visit(page, airflow.url)
        finally:
            # Shows why a test failed.
            page.screenshot(path=tmp_path / "page.png")


# Links


def link_of(visit: Visit, run: Run, name: str) -> Any:
    return visit.extra_link(run.dag_id, run.run_id, "work", name)


@since_3_3
def test_the_link_of_a_guess_opens_the_editor_with_its_steps(stage, visit):
    run = stage.start(
        "guesser", "none", text="When an order arrives in the shop, add a row to the spreadsheet"
    )
    guess = run.succeeds()
    assert urlsplit(guess["prefilled_url"]).hostname == "127.0.0.1", "the emulator's own editor"

    with visit.page.context.expect_page() as opening:
        link_of(visit, run, "Open workflow editor").click()
    editor = opening.value
    editor.get_by_role("heading", name="Workflow editor").wait_for()
    assert editor.url == guess["prefilled_url"]
    assert editor.get_by_role("listitem").all_inner_texts() == ["ShopAPI@1.0.0", "SpreadsheetAPI@1.0.0"]


@since_3_3
def test_the_link_of_several_runs_lists_these(stage, visit, inbox):
    ids = inbox.put(*[{"n": n} for n in range(3)])
    run = stage.start("listener", inbox)
    run.succeeds()

    link_of(visit, run, "Started DAG runs").click()
    visit.page.wait_for_url(re.compile("/dags/target/runs"))
    links = visit.page.get_by_role("table").get_by_role("link", name=re.compile("^workflow__"))
    expect(links).to_have_count(3, timeout=ON_PAGE_SECONDS * 1000)
    assert sorted(links.all_inner_texts()) == sorted(inbox.run_id_of(message_id) for message_id in ids)


# The form of a connection


@pytest.fixture
def conn_id(stage) -> Iterator[str]:
    """Of a connection that the test makes."""
    yield CONN_ID
    # A test that failed may not have got that far.
    with contextlib.suppress(AirflowAPIError):
        stage.airflow.api.request("DELETE", f"connections/{CONN_ID}")


@since_3_3
def test_a_connection_that_is_made_in_the_page_works_and_so_it_does_when_it_was_changed_there(
    stage, visit, inbox, conn_id
):
    fields = stage.emulator.connection()
    form = visit.add_connection(conn_id)
    form.fill({"Base URL": fields["host"], "Client ID": fields["login"], "Client secret": fields["password"]})
    form.open("Extra Fields")
    form.fill({"Token URL": fields["extra"]["oauth_url"], "Timeout (seconds)": "12"})
    form.submit("Save")
    assert stored_connection(stage, conn_id) == {
        "conn_type": "workflow",
        "host": fields["host"],
        "login": fields["login"],
        "oauth_url": fields["extra"]["oauth_url"],
        **DEFAULTS,
        "timeout": 12,
    }
    check_it_works(stage, inbox, conn_id)

    form = visit.edit_connection(conn_id)
    assert form.input("Client secret").input_value() != fields["password"]
    form.open("Extra Fields")
    form.fill({"Timeout (seconds)": "13"})
    form.choose("Grant", "client_credentials")
    form.submit("Save")
    assert stored_connection(stage, conn_id)["timeout"] == 13
    check_it_works(stage, inbox, conn_id)


def stored_connection(stage: Stage, conn_id: str) -> dict[str, Any]:
    """A connection as the API shows it, which hides its secrets and no field of its extra."""
    connection = stage.airflow.api.request("GET", f"connections/{conn_id}")
    standard = {name: connection[name] for name in ("conn_type", "host", "login")}
    extra = json.loads(connection["extra"])
    assert connection["password"] == "***"
    return {**standard, **{name: value for name, value in extra.items() if value is not None}}


def check_it_works(stage: Stage, inbox: Inbox, conn_id: str) -> None:
    ids = inbox.put({"n": 1})
    run = stage.start("dispatcher_through", inbox, conn_id=conn_id)
    assert run.succeeds()["started"] == {"count": 1, "ids": ids}


# The form of a run


def test_a_dag_of_an_inbox_is_started_by_hand_with_a_changed_example(stage, visit):
    stage.airflow.wait_for_dags(["decorated"])
    form = visit.trigger_form("decorated")
    message = form.field("Message")
    message.get_by_text("change the payload of this example").wait_for()
    # Airflow 3.2 has another editor than later versions.
    editor = message.locator(".view-lines, .cm-content")
    expect(editor).to_contain_text('"payload": { "example": true }', timeout=ON_PAGE_SECONDS * 1000)
    editor.get_by_text("true", exact=True).dblclick()
    visit.page.keyboard.type("false")

    form.submit("Trigger")
    visit.page.wait_for_url("**/runs/*")
    run_id = unquote(visit.page.url.rpartition("/runs/")[2])
    run = stage.airflow.api.wait_for_run("decorated", run_id, PATIENCE_SECONDS)
    assert run["run_type"] == "manual"
    read = json.loads(stage.airflow.api.xcom("decorated", run_id, "read_payload"))
    assert read == {"payload": {"example": False}, "as_text": False}
