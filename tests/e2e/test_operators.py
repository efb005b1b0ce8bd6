"""Operators that make a single call of the service, and the links that tasks have on their page."""

from __future__ import annotations

import pytest
import requests

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Run

ORDERS = "When an order arrives in the shop, add a row to the spreadsheet"


def links(run: Run, map_index: int | None = None) -> dict[str, str | None]:
    """The links of the task as the page gets them."""
    path = f"dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/work/links"
    params = {} if map_index is None else {"map_index": map_index}
    found = run.airflow.api.request("GET", path, params=params)
    return found["extra_links"]


def listed(run: Run, address: str) -> set[str]:
    """The ids of the runs that the page of this address lists: it asks the API with the same parameters."""
    path, _, query = address.removeprefix(run.airflow.url).partition("?")
    dag_id = path.split("/")[2] if path.startswith("/dags/") else "~"
    assert path in (f"/dags/{dag_id}/runs", "/dag_runs")
    page = run.airflow.api.request("GET", f"dags/{dag_id}/dagRuns?{query}&limit=100")
    return {each["dag_run_id"] for each in page["dag_runs"]}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Name of an inbox that does not exist yet."""
    return request.node.originalname[5:105]


def test_a_guess_is_returned_and_its_link_opens_the_editor(stage):
    run = stage.start("guesser", "none", text=ORDERS)
    guess = run.succeeds()
    assert guess["title"] == ORDERS
    assert [each["step"]["app"] for each in guess["steps"]] == ["Shop", "Spreadsheet"]
    assert links(run) == {"Open workflow editor": guess["prefilled_url"]}
    assert "Workflow editor" in requests.get(guess["prefilled_url"], timeout=10).text


def test_mapped_guesses_have_a_link_each(stage):
    stage.airflow.wait_for_dags(["guess_of_a_task"])
    api = stage.airflow.api
    run = Run(stage.airflow, "guess_of_a_task", api.trigger_dag("guess_of_a_task"))
    api.wait_for_run(run.dag_id, run.run_id, PATIENCE_SECONDS)
    urls = [api.xcom(run.dag_id, run.run_id, "work", map_index=n)["prefilled_url"] for n in (0, 1)]
    assert [links(run, n) for n in (0, 1)] == [{"Open workflow editor": url} for url in urls]


def test_a_text_that_describes_no_workflow_fails_without_a_retry_and_says_why(stage):
    run = stage.start("guesser", "none", text="The weather is lovely")
    log = run.fails()
    assert "The description describes no workflow: The prompt does" in log
    assert run.task["try_number"] == 1
    assert links(run)["Open workflow editor"] in ("", None)


def test_a_text_that_describes_no_workflow_skips_where_asked(stage):
    run = stage.start("skipping_guesser", "none", text="The weather is lovely")
    run.reaches("skipped")
    assert "The prompt does not describe a workflow" in run.log()


def test_templates_are_listed(stage):
    templates = stage.start("template_lister", "none", limit=3).succeeds()
    assert len(templates) == 3
    assert all("Shop" in [step["title"] for step in template["steps"]] for template in templates)


def test_an_inbox_is_created_and_found_again(stage, name):
    first = stage.start("ensurer", name).succeeds()
    assert (first["name"], first["status"]) == (name, "active")
    assert stage.start("ensurer", name).succeeds() == first


def test_an_inbox_that_initializes_is_waited_for(stage, name):
    created = stage.start("ensurer", name).succeeds()
    inboxes = stage.emulator.store.inboxes
    inboxes.force(created["id"], "initializing")
    before = stage.emulator.count("ensure_inbox")
    run = stage.start("ensurer", name)
    stage.until(lambda: stage.emulator.count("ensure_inbox") >= before + 2, "the task to wait")
    inboxes.force(created["id"], "active")
    assert run.succeeds() == created


def test_an_inbox_that_fails_while_it_is_waited_for_fails_the_task_and_may_be_created_again(stage, name):
    created = stage.start("ensurer", name).succeeds()
    inboxes = stage.emulator.store.inboxes
    inboxes.force(created["id"], "initializing")
    before = stage.emulator.count("ensure_inbox")
    run = stage.start("ensurer", name)
    stage.until(lambda: stage.emulator.count("ensure_inbox") >= before + 2, "the task to wait")
    inboxes.force(created["id"], "initialization_failure", "subscribe_failed")
    log = run.fails()
    assert "failed to initialize (subscribe_failed). Delete it and create it again" in log
    assert run.task["try_number"] == 1, "a retry cannot help"
    recreated = stage.start("recreator", name).succeeds()
    assert recreated["status"] == "active"
    assert recreated["id"] != created["id"]


def test_an_inbox_that_stays_initializing_fails_in_time(stage, name):
    created = stage.start("ensurer", name).succeeds()
    stage.emulator.store.inboxes.force(created["id"], "initializing")
    log = stage.start("impatient_ensurer", name).fails()
    assert f"Inbox '{name}' was not active within 5 s" in log


def test_a_name_with_another_subscription_fails_and_shows_both(stage, name):
    stage.start("ensurer", name).succeeds()
    run = stage.start("ensurer", name, region="us")
    log = run.fails()
    assert '"region": "us"' in log
    assert '"region": "eu"' in log
    assert run.task["try_number"] == 1


def test_an_inbox_is_paused_resumed_and_deleted_however_often(stage, inbox):
    for dag_id, status in (("pauser", "paused"), ("resumer", "active")):
        assert [stage.start(dag_id, inbox).succeeds()["status"] for _ in range(2)] == [status, status]
    answers = [stage.start("deleter", inbox).succeeds() for _ in range(2)]
    assert answers == [{"inbox": inbox.name, "deleted": deleted} for deleted in (True, False)]


def test_a_pause_whose_answer_is_lost_succeeds_in_the_retry(stage, inbox):
    inbox.fault("drop", "pause_inbox", when="after")
    run = stage.start("pauser", inbox)
    assert run.succeeds()["status"] == "paused"
    assert run.task["try_number"] == 2


def test_a_user_is_unenrolled(stage):
    result = stage.start("unenroller", "none", enrollment="e-17").succeeds()
    assert result == {"enrollment_id": "e-17", "unenrolled": True}
    assert "e-17" in stage.emulator.store.unenrolled


def test_the_link_of_several_runs_lists_them_and_no_others(stage, inbox):
    before = Inbox.open(stage.emulator, f"before-{inbox.name}"[:100])
    before.put({"n": 0})
    stage.start("dispatcher", before).succeeds()
    ids = inbox.put({"n": 1}, {"n": 2})
    run = stage.start("listener", inbox)
    run.succeeds()
    found = listed(run, links(run)["Started DAG runs"])
    assert found == {inbox.run_id_of(message_id) for message_id in ids}


def test_the_link_of_one_run_leads_to_a_list_of_it(stage, inbox):
    (message_id,) = inbox.put({"n": 1})
    run = stage.start("dispatcher", inbox)
    run.succeeds()
    address = f"{stage.airflow.url}/dags/target/runs?run_id_pattern={inbox.run_id_of(message_id)}"
    assert links(run) == {"Started DAG runs": address}
    assert requests.get(address, timeout=10).headers["content-type"].startswith("text/html")


def test_a_dispatch_that_started_nothing_has_no_link(stage, inbox):
    run = stage.start("dispatcher", inbox)
    run.succeeds()
    assert links(run)["Started DAG runs"] in ("", None)
