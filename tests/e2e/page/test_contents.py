"""What the page shows, also of many rows."""

from __future__ import annotations

import re

from tests.page.fake_api import EARLIER, FakeAPI, dead_letter, finding, inbox, message, run
from tests.page.host import Answer
from tests.page.steps import HOSTILE, at, wait_until
from tools.browser import PATIENCE_SECONDS

LARGE = 5000


# What the page shows


def test_the_list_shows_state_counts_age_and_listeners_and_on_top_what_needs_a_user(page, visit, api):
    paused = {"dag_id": "other", "is_paused": True, "url": "/dags/other", "last_run": None}
    api.inboxes = [
        inbox(2, listeners=[*inbox(2)["listeners"], paused]),
        inbox(3, name=None, listeners=[], no_listener="no DAG listens to it: deploy one"),
        inbox(1, status="paused", is_alarm=True, paused_text="The login expired: log in; then: press Resume"),
    ]
    visit()

    first, second, third = (page.get_by_role("row").nth(n) for n in (1, 2, 3))
    for text in ("paused by the service", "The login expired", "5 minutes ago", "handle_1"):
        first.get_by_text(text, exact=True).wait_for()
    assert first.get_by_role("cell").all_inner_texts()[2:5] == ["4", "2", "1"]
    for text in ("3 failed", "1 dead letter", "1,200 success"):
        first.get_by_role("link", name=text).wait_for()
    for text in ("no listener", "no DAG listens to it", "No DAG listens"):
        second.get_by_text(text, exact=True).wait_for()
    second.get_by_role("link", name=inbox(3)["id"]).wait_for()
    third.get_by_text("quarantined", exact=True).wait_for()
    assert "other\nDAG paused" in third.inner_text()


def test_a_listener_that_failed_is_one_click_away_from_its_log(page, visit, api):
    last = {**run("handle_2", state="failed"), "ended_at": "2026-11-23T09:00:00Z"}
    last["url"] += "/tasks/start_runs"
    listener = {**inbox(2)["listeners"][0], "last_run": last}
    api.inboxes = [inbox(1), inbox(2, listeners=[listener])]
    visit()

    row = page.get_by_role("row").nth(1)
    row.get_by_text("listener failed", exact=True).wait_for()
    log = row.get_by_role("link", name="Log of the failed task of handle_2")
    assert log.get_attribute("href") == "/dags/handle_2/runs/workflow__1/tasks/start_runs"
    assert "3 hours ago (Nov 23, 2026" in log.get_attribute("title")


def test_zeros_are_quiet_and_counts_that_load_say_so(page, visit, api):
    api.quarantined = 0
    routes = []
    page.route("**/summary", lambda route: routes.append(route))
    visit()
    row = page.get_by_role("row").nth(1)
    row.get_by_text("counting…").first.wait_for()
    assert row.get_by_text("counting…").count() == 3
    wait_until(page, lambda: routes)
    routes[0].continue_()

    row.get_by_role("link", name="4", exact=True).wait_for()
    assert row.get_by_role("cell").all_inner_texts()[2:5] == ["4", "2", "0"]
    assert row.get_by_role("link", name="0", exact=True).count() == 0


def test_a_list_is_sorted_by_a_column_and_filtered_by_state(page, visit, api):
    api.inboxes = [inbox(n, runs={"success": n}) for n in (1, 2, 3)]
    api.inboxes[1] |= {"status": "initialization_failure", "is_alarm": True}
    visit()
    names = page.locator("tbody tr td:first-child a")
    page.get_by_role("link", name="orders-3").wait_for()
    assert names.all_inner_texts() == ["orders-2", "orders-1", "orders-3"]

    page.get_by_role("button", name="Inbox", exact=True).click()
    page.get_by_role("columnheader", name="Inbox").and_(page.locator("[aria-sort=ascending]")).wait_for()
    assert names.all_inner_texts() == ["orders-1", "orders-2", "orders-3"]
    page.get_by_role("button", name="Inbox", exact=True).click()
    page.get_by_role("columnheader", name="Inbox").and_(page.locator("[aria-sort=descending]")).wait_for()
    assert names.all_inner_texts() == ["orders-3", "orders-2", "orders-1"]
    page.reload()
    page.get_by_role("combobox", name="State").select_option("setup failed")
    page.get_by_text("1 of 3 inboxes").wait_for()
    assert names.all_inner_texts() == ["orders-2"]


def test_an_inbox_that_does_not_exist_has_a_row_without_links_and_counts(page, visit, api):
    api.inboxes = [inbox(1), inbox(2, id=None, name="oders", status="missing", is_alarm=True, runs=None)]
    visit()

    row = page.get_by_role("row").filter(has_text="oders")
    row.get_by_text("missing", exact=True).wait_for()
    page.get_by_role("link", name="4", exact=True).wait_for()
    assert not re.search(r"[\d…]", "".join(row.get_by_role("cell").all_inner_texts()[2:5]))
    assert row.get_by_role("link").all_inner_texts() == ["handle_2"]


def test_problems_are_named_above_everything_with_the_fix_and_the_time_since(page, visit, api):
    dag = {"dag_id": "handle_1", "url": "/dags/handle_1"}
    paused = "paused (authentication): new events are dropped"
    missing = "it listens to the inbox 'oders', which does not exist; did you mean 'orders'?"
    since = "2026-11-23T09:00:00Z"
    api.findings = [
        finding(f"inbox {HOSTILE}", paused, inbox=inbox(1)["id"], dags=[dag], failing_since=since),
        finding("listener handle_1", missing, "correct the name", dags=[dag], failing_since=since),
        finding("listeners of parcels", "a and b: each message goes to one of them", status="warning"),
    ]
    visit()

    banner = page.get_by_role("alert")
    banner.get_by_text("3 problems to correct").wait_for()
    for text in (
        f"failed: inbox {HOSTILE}: {paused} (handle_1 first failed 3 hours ago)\n→ correct it",
        f"failed: listener handle_1: {missing} (it first failed 3 hours ago)\n→ correct the name",
        "warning: listeners of parcels: a and b: each message goes to one of them\n→ correct it",
    ):
        assert text.lower() in banner.inner_text().lower()  # its lines begin with a capital letter
    dags = banner.get_by_role("link", name="handle_1")
    assert {link.get_attribute("href") for link in dags.all()} == {"/dags/handle_1"}
    banner.get_by_role("link", name="inbox").first.click()
    page.get_by_text("1 problem to correct", exact=True).wait_for()


def test_a_message_shows_its_deliveries_its_error_and_its_run(page, visit, api):
    api.messages = [
        message(
            1, status="quarantined", delivery_count=5, error_message="no such order", possible_duplicate=True
        ),
        message(2, run=run(state="running")),
        message(3, dead_letter=run("dead_letters", 3, "failed")),
    ]
    visit(at())

    row = page.get_by_role("row").filter(has_text="no such order")
    assert row.get_by_role("cell").all_inner_texts()[3] == "5"
    link = page.get_by_role("link", name="handle", exact=True)
    assert link.get_attribute("href") == "/dags/handle/runs/workflow__1"
    page.get_by_role("row").filter(has=link).get_by_text("running").wait_for()
    page.get_by_role("link", name="dead_letters").wait_for()
    row.get_by_role("link", name=message(1)["id"]).click()
    dialog = page.get_by_role("dialog", name="Message")
    for text in (message(1)["id"], "no such order", "possible duplicate"):
        dialog.get_by_text(text, exact=True).wait_for()
    dialog.get_by_text("does not deliver it again").wait_for()


def test_many_deliveries_are_in_color_with_what_follows_and_the_log_that_has_the_reason(page, visit, api):
    task = {"task_id": "start_runs", "dead_letter_dag_id": "dead_orders"}
    listener = inbox()["listeners"][0] | {"tasks": [task]}
    api.inboxes = [inbox(listeners=[listener])]
    api.messages = [message(n, delivery_count=n) for n in (1, 3, 4)]
    failed = {"dag_id": "handle_1", "dag_run_id": "r 1", "task_id": "start_runs", "map_index": -1}
    api.task_instances = [{**failed, "start_date": EARLIER, "end_date": EARLIER}]
    visit(at())

    few, some, many = (
        page.get_by_role("row").filter(has=page.get_by_role("link", name=message(n)["id"])) for n in (1, 3, 4)
    )
    some.get_by_text("then a dead letter").wait_for()
    colors = [row.get_by_role("cell").nth(3).locator(".wf-badge") for row in (few, some, many)]
    assert [color.count() for color in colors] == [0, 1, 1]
    assert "orange" in colors[1].get_attribute("style")
    assert "failed" in colors[2].get_attribute("style")
    many.get_by_role("link", name=message(4)["id"]).click()
    dialog = page.get_by_role("dialog", name="Message")
    dialog.get_by_text("On its next delivery it becomes a dead letter of dead_orders.").wait_for()
    log = dialog.get_by_role("link", name="handle_1, start_runs")
    assert log.get_attribute("href") == "/dags/handle_1/runs/r%201/tasks/start_runs"


def test_why_there_is_no_link_to_a_log_is_said(page, visit, api):
    api.messages = [message(1, delivery_count=1)]
    visit(at(more=f"&message={message(1)['id']}"))
    dialog = page.get_by_role("dialog", name="Message")
    dialog.get_by_text("handle_1, start_runs: no failed try is stored").wait_for()

    api.failing["taskInstances"] = Answer({"detail": "Forbidden"}, 403)
    page.reload()
    dialog.get_by_text("Airflow does not allow you to do this.").wait_for()


def test_an_order_number_leads_to_the_runs_that_have_it_in_their_message(page, visit, api):
    conf = {"inbox_id": inbox()["id"], "message": {"id": "m-7", "payload": {"order_id": "A-1007"}}}
    listed_run = {"dag_id": "handle", "dag_run_id": "workflow__m-7", "state": "success", "run_after": EARLIER}
    api.found_runs = [listed_run | {"conf": conf}, listed_run | {"conf": conf | {"inbox_id": inbox(2)["id"]}}]
    api.messages = [message(1)]
    visit(at())
    page.get_by_role("searchbox").fill("A-1007")
    page.get_by_text("No messages match the filter.").wait_for()
    page.get_by_role("button", name="Search the payloads of DAG runs").click()

    box = page.get_by_role("status").filter(has_text="1 DAG run of this inbox with “A-1007” in the message")
    assert box.get_by_role("link").get_attribute("href") == "/dags/handle/runs/workflow__m-7"
    box.get_by_text("m-7", exact=True).wait_for()


def test_how_many_messages_were_repeated_is_counted_on_demand(page, visit, api):
    counts = {"started": {"count": 1}, "repeated": {"count": 5}}
    api.result = {"inbox_id": inbox()["id"], **counts}
    api.task_instances = [{"dag_id": "handle_1", "dag_run_id": "r", "task_id": "start_runs", "map_index": -1}]
    visit(at())
    page.get_by_role("button", name="Count").click()

    page.get_by_text("6 messages, 1 DAG run, 5 repeated").wait_for()
    page.get_by_text("in the last result of start_runs").wait_for()


def test_the_list_of_inboxes_is_filtered_by_state(page, visit, api):
    api.inboxes, api.quarantined = [inbox(1), inbox(2, status="paused", runs={})], 0
    visit()
    page.get_by_role("combobox", name="State").select_option("paused")

    page.get_by_text("1 of 2 inboxes").wait_for()
    assert page.get_by_role("link", name="orders-1").count() == 0


def test_a_dead_letter_is_no_success_and_a_zero_is_quiet(page, visit, api):
    api.messages = [message(1, status="dead-lettered", dead_letter=run("dead_letters", 1, "success"))]
    api.summary_of_inbox = lambda: (
        FakeAPI.summary_of_inbox(api) | {"counts": {"available": 0, "leased": 2, "quarantined": 0}}
    )
    visit(at())

    state = page.get_by_role("cell").last.locator(".wf-badge")
    state.wait_for()
    assert "gray" in state.get_attribute("style")
    page.locator(".wf-stat").get_by_role("link", name="2", exact=True).wait_for()
    assert page.locator(".wf-stat b").all_inner_texts()[:3] == ["0", "2", "0"]
    assert page.locator(".wf-stat b a").count() == 1, "what nobody has to look at is no link"


def test_a_list_is_sorted_by_a_click_and_filtered_by_state(page, visit, api):
    api.dead_letters = [
        dead_letter(n, reason=reason, cause=reason)
        for n, reason in enumerate(("target", "invalid", "rejected"))
    ]
    visit(at(more="&tab=dead-letters"))
    page.get_by_text("3 dead letters").wait_for()
    reasons = page.locator("tbody tr:not(.wf-gap) td:nth-child(2) .wf-cut")
    header = page.get_by_role("columnheader", name="Reason")
    assert reasons.all_inner_texts() == ["target", "invalid", "rejected"]
    for order, expected in (
        ("ascending", ["invalid", "rejected", "target"]),
        ("descending", ["target", "rejected", "invalid"]),
        (None, ["target", "invalid", "rejected"]),
    ):
        header.get_by_role("button").click()
        wait_until(page, lambda order=order: header.get_attribute("aria-sort") == order)
        assert reasons.all_inner_texts() == expected
    page.get_by_role("combobox", name="State").select_option("invalid")
    page.get_by_text("1 of 3 dead letters").wait_for()
    assert "status=invalid" in page.url


def test_the_dialog_of_a_message_has_its_url_and_the_payload_of_its_run(page, context, visit, api):
    api.messages = [message(1, status="started", run=run())]
    visit(at(more=f"&message={message(1)['id']}"))
    dialog = page.get_by_role("dialog", name="Message")

    dialog.get_by_text('"amount": 12345678901234567890').first.wait_for()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog.get_by_role("button", name="Copy").click()
    dialog.get_by_role("button", name="Copied").wait_for()
    assert "12345678901234567890" in page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert "message=" not in page.url

    visit(at(more="&message=gone"))
    dialog.get_by_text("This message is no longer listed.").wait_for()


def test_why_the_payload_of_a_message_is_not_shown_is_said(page, visit, api):
    api.failing["dagRuns"] = Answer({"detail": "Forbidden"}, 403)
    api.messages = [message(1, status="started", run=run())]
    visit(at(more=f"&message={message(1)['id']}"))

    dialog = page.get_by_role("dialog", name="Message")
    dialog.get_by_text("Airflow does not allow you to do this.").wait_for()
    assert dialog.get_by_role("button", name="Copy").count() == 0
    api.failing["dagRuns"] = Answer({"detail": "Not Found"}, 404)
    page.reload()
    dialog.get_by_text("The DAG run does not exist any more.").wait_for()


def test_a_dialog_is_as_wide_as_what_it_shows(page, visit, api):
    long = "x" * 300
    api.messages = [message(1, error_message=long, run=run(long))]
    visit(at())
    page.get_by_role("link", name=message(1)["id"]).click()

    dialog = page.get_by_role("dialog", name="Message")
    assert dialog.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_the_failed_runs_of_an_inbox_are_one_click_away(page, visit, api):
    api.messages = [
        message(1, status="started", run=run(state="failed")),
        message(2, status="started", run=run()),
    ]
    visit()
    page.get_by_role("link", name="3 failed").click()

    page.get_by_text("1 of 2 messages").wait_for()
    assert page.get_by_role("combobox", name="Status").input_value() == "failed"


def test_names_and_errors_with_markup_stay_text(page, visit, api):
    api.connections = [HOSTILE]
    listener = {"dag_id": HOSTILE, "is_paused": False, "url": "javascript:hacked=1"}
    api.inboxes = [
        inbox(
            1, name=HOSTILE, status="paused", paused_text=HOSTILE, paused_reason=HOSTILE, listeners=[listener]
        )
    ]
    api.messages = [message(1, error_message=HOSTILE, status=HOSTILE, run=run() | {"run_id": HOSTILE})]
    api.dead_letters = [dead_letter(1, reason=HOSTILE, cause=HOSTILE, target_dag_id=HOSTILE)]
    visit()
    page.get_by_role("link", name="<script>").first.click()

    # The page of the inbox has no name before its first answer.
    heading = page.get_by_role("heading", level=2).filter(has_text="<script>")
    assert heading.inner_text() == HOSTILE
    page.get_by_role("cell", name=HOSTILE).first.wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_text(HOSTILE).wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("button", name="Replay").click()
    assert page.get_by_label("DAG to start").input_value() == HOSTILE
    assert page.locator(".wf-root img, .wf-root script, .wf-root a[href^=javascript]").count() == 0
    assert page.evaluate("globalThis.hacked") is None


def test_the_page_speaks_of_times_in_the_language_of_the_user(browser, host, api):
    with browser.new_context() as context:
        # As Airflow's menu stores a choice: before 3.3 it does not recognize the locale of every browser.
        context.add_init_script("localStorage.setItem('i18nextLng', 'de')")
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        page = context.new_page()
        page.goto(f"{host.url}plugin/workflow-inboxes")
        page.get_by_text("vor 5 Minuten").wait_for()


def test_all_rows_have_one_height_whatever_their_inboxes_have(page, visit, api):
    states = dict.fromkeys(("failed", "dead_letter", "running", "queued", "success"), 1000)
    why = "the credentials of the app's account expired: connect the account again; then: press Resume"
    api.inboxes = [inbox(1, runs=states), inbox(2, status="paused", paused_text=why), inbox(3, runs={})]
    visit()
    page.get_by_role("link", name="orders-3").wait_for()

    rows = page.locator("tbody tr:not(.wf-gap)").all()
    assert {row.bounding_box()["height"] for row in rows} == {60}


# Many rows


def test_of_many_inboxes_only_those_in_sight_are_rendered_and_asked_for(page, visit, api, host):
    api.inboxes = [inbox(n) for n in range(1, 501)]
    visit()
    page.get_by_text("500 inboxes").wait_for()
    page.get_by_role("row").filter(has_text="orders-1").first.get_by_role("link", name="4").wait_for()

    assert page.get_by_role("row").count() < 40
    assert len([request for request in host.requests if request.parts[-1] == "summary"]) < 40
    page.get_by_role("region", name="inboxes").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    page.get_by_role("link", name="orders-500").wait_for()
    assert page.get_by_role("row").count() < 40


def test_many_messages_are_loaded_on_demand_and_filtered(page, visit, api):
    api.messages = [message(n, error_message=f"error {n}") for n in range(LARGE)]
    api.page_size = 500
    visit(at())
    page.get_by_text("There are more messages.").wait_for()
    page.get_by_role("button", name="Load up to 5,000").click()
    page.get_by_text(f"{LARGE} messages").wait_for()

    assert page.get_by_role("row").count() < 60
    page.get_by_role("searchbox").fill("error 4999")
    page.get_by_text(f"1 of {LARGE} messages").wait_for()
    page.get_by_role("cell", name="error 4999").wait_for()


def test_an_inbox_is_found_again_where_the_list_was_left(page, visit, api):
    api.quarantined = 0  # such inboxes come on top as soon as they are known
    api.inboxes = [inbox(n) for n in range(1, 501)]
    visit()
    page.get_by_role("region", name="inboxes").evaluate("box => box.scrollTo(0, 12000)")
    page.get_by_role("link", name="orders-205").click()
    page.get_by_role("heading", name="orders-205").wait_for()

    page.get_by_role("link", name="Inboxes").click()
    page.get_by_role("link", name="orders-205").wait_for()
