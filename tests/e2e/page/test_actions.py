"""What a user does on the page."""

from __future__ import annotations

import pytest

from tests.page.fake_api import CONNECTION, dead_letter, inbox, run
from tests.page.host import Answer
from tests.page.steps import at, posts

REASON = "the param has a default now"


def replay(page, reason=REASON, button="Start DAG run"):
    """Say in the dialog why a message is replayed, and let it be."""
    page.get_by_label("Why do you replay it?").fill(reason)
    page.get_by_role("button", name=button).click()


def test_pausing_says_that_events_are_dropped_and_asks_first(page, visit, host):
    visit()
    page.get_by_role("link", name="orders-1").wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0, (
        "not in a row, where one presses it by mistake"
    )
    visit(at())
    button = page.get_by_role("button", name="Pause orders-1")
    button.click()
    dialog = page.get_by_role("dialog", name="Pause orders-1?")
    dialog.get_by_text("Events are dropped while paused").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert posts(host) == []
    assert button.evaluate("button => button === document.activeElement")

    button.click()
    dialog.get_by_role("button", name="Pause inbox").click()
    page.get_by_role("status").get_by_text("orders-1 is paused now.").wait_for()
    resume = page.get_by_role("button", name="Resume orders-1")
    resume.wait_for()
    assert resume.evaluate("button => button === document.activeElement")
    (post,) = posts(host)
    assert post.path == f"connections/{CONNECTION}/inboxes/{inbox()['id']}/pause"
    assert post.headers["X-Workflow-Page"] == "1"
    assert post.headers["Content-Type"] == "application/json"


def test_the_page_of_an_inbox_says_that_pausing_drops_events_and_asks_first(page, visit, host):
    visit(at())
    page.get_by_text("Events are dropped while paused").wait_for()
    page.get_by_role("button", name="Pause orders-1").click()
    dialog = page.get_by_role("dialog", name="Pause orders-1?")
    dialog.get_by_text("they do not arrive later").wait_for()
    assert posts(host) == []
    dialog.get_by_role("button", name="Pause inbox").click()

    page.get_by_role("button", name="Resume orders-1").wait_for()
    assert posts(host)[0].parts[-1] == "pause"


def test_a_paused_inbox_can_be_resumed_on_its_own_page(page, visit, api, host):
    api.inboxes = [inbox(1, status="paused", paused_reason="user", paused_text="A user paused it.")]
    visit(at())
    page.get_by_text("Events are dropped while paused: resume").wait_for()
    page.get_by_role("button", name="Resume orders-1").click()
    page.get_by_role("dialog").get_by_text("do not come back").wait_for()
    page.get_by_role("button", name="Resume inbox").click()

    page.get_by_role("button", name="Pause orders-1").wait_for()
    assert posts(host)[0].parts[-1] == "resume"


def test_what_was_done_is_shown_while_another_worker_still_gives_the_former_list(page, visit, api, host):
    api.is_late = True
    api.dead_letters = [dead_letter(1)]
    visit(at())
    page.get_by_role("button", name="Pause orders-1").click()
    page.get_by_role("button", name="Pause inbox").click()
    page.get_by_role("button", name="Resume orders-1").wait_for()
    visit(at(more="&tab=dead-letters"))
    page.get_by_role("button", name="Replay").click()
    replay(page)
    page.get_by_text("The DAG run is started:").wait_for()

    assert page.get_by_role("button", name="Replay").count() == 0
    routes = [request.parts[-1] for request in host.requests]
    assert routes.index("replay") > max(n for n, last in enumerate(routes) if last == "dead-letters")


def test_what_could_not_be_done_is_said_in_the_dialog(page, visit, api):
    api.failing["pause"] = Answer({"detail": "Forbidden"}, 403)
    visit(at())
    page.get_by_role("button", name="Pause orders-1").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause inbox").click()

    dialog.get_by_role("alert").get_by_text("Ask an administrator").wait_for()
    del api.failing["pause"]
    dialog.get_by_role("button", name="Pause inbox").click()
    dialog.wait_for(state="hidden")


@pytest.mark.parametrize(
    ("outcome", "words"), [("started", "is started"), ("existing", "nothing was started")]
)
def test_a_dead_letter_is_replayed_with_a_reason(page, visit, api, host, outcome, words):
    api.dead_letters = [dead_letter(1)]
    api.outcome = outcome
    visit(at(more="&tab=dead-letters"))
    page.get_by_text("the DAG requires the param amount").wait_for()
    page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog", name="Replay the message?")
    dialog.get_by_role("button", name="Start DAG run").click()
    assert posts(host) == []

    payload = dialog.locator("pre").first
    payload.filter(has_text="amount").wait_for()
    assert payload.inner_text() == '{\n  "amount": 7\n}'
    dialog.get_by_text("Whole message").click()
    dialog.get_by_text('"id": "m"').wait_for()
    assert dialog.get_by_text("The schema rejected").count() == 0
    replay(page)
    dialog.wait_for(state="hidden")
    notice = page.get_by_role("status").filter(has_text=words)
    assert notice.get_by_role("link").get_attribute("href") == "/dags/handle/runs/workflow__1"
    page.get_by_role("cell").get_by_text("queued").wait_for()
    (post,) = posts(host)
    assert post.body == {
        "dag_id": "dead_letters",
        "run_id": "workflow__1",
        "trigger_dag_id": None,
        "reason": REASON,
    }


def test_a_replay_says_first_what_the_schema_rejected_and_why(page, visit, api, host):
    api.dead_letters = [dead_letter(1), dead_letter(2, reason="invalid", cause="$.total: not a number")]
    visit(at(more="&tab=dead-letters"))
    page.get_by_role("button", name=f"Replay {dead_letter(2)['message_id']}").click()
    dialog = page.get_by_role("dialog")
    box = dialog.locator(".wf-box").filter(has_text="The schema rejected this message.")
    box.get_by_text("$.total: not a number").wait_for()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Replay all 2").click()
    box = dialog.locator(".wf-box").filter(has_text="The schema rejected 1 of 2 messages.")
    box.get_by_text("$.total: not a number").wait_for()
    assert posts(host) == []


def test_dead_letters_of_all_inboxes_are_in_one_list_and_replayed_from_it(page, visit, api, host):
    other = inbox(2)
    api.inboxes = [inbox(1), other]
    api.dead_letters = [dead_letter(1), dead_letter(2, inbox_id=other["id"], inbox_name=other["name"])]
    visit()
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("link", name="orders-2").wait_for()
    page.get_by_role("button", name=f"Replay {dead_letter(2)['message_id']}").click()
    replay(page)

    page.get_by_role("dialog").wait_for(state="hidden")
    (post,) = posts(host)
    assert post.path == f"connections/{CONNECTION}/inboxes/{other['id']}/dead-letters/replay"
    page.get_by_role("link", name="orders-2").click()
    page.get_by_role("heading", name="orders-2").wait_for()


def test_several_dead_letters_are_replayed_with_one_confirmation(page, visit, api, host):
    others = dead_letter(3, target_dag_id=None), dead_letter(4, replayed=run(number=9))
    api.dead_letters = [dead_letter(1), dead_letter(2), *others]
    visit(at(more="&tab=dead-letters"))
    page.get_by_role("button", name="Replay all 2").click()
    dialog = page.get_by_role("dialog", name="Replay 2 messages?")
    dialog.get_by_text("handle (dead letters of dead_letters): 2 messages").wait_for()
    replay(page, button="Start 2 DAG runs")

    page.get_by_role("status").get_by_text("2 DAG runs started").wait_for()
    assert [post.body["run_id"] for post in posts(host)] == ["workflow__1", "workflow__2"]

    api.dead_letters, routes = [dead_letter(5), dead_letter(6)], []
    page.route("**/replay", lambda route: routes.append(route))
    page.get_by_role("button", name="Refresh dead letters").click()
    page.get_by_role("button", name="Replay all 2").click()
    with page.expect_request("**/replay"):
        replay(page, button="Start 2 DAG runs")
    page.keyboard.press("Escape")
    routes[0].continue_()
    page.get_by_role("status").get_by_text("1 DAG run started, 1 not started: canceled").wait_for()
    assert len(posts(host)) == 3


def test_a_dead_letter_without_a_target_is_replayed_into_a_chosen_dag(page, visit, api, host):
    api.dead_letters = [dead_letter(1, target_dag_id=None)]
    visit(at(more="&tab=dead-letters"))
    page.get_by_role("button", name="Replay").click()
    page.get_by_label("DAG to start").fill("handle_by_hand")
    replay(page, reason="routed by hand")

    page.get_by_role("dialog").wait_for(state="hidden")
    assert posts(host)[0].body["trigger_dag_id"] == "handle_by_hand"
