"""The page refreshes, and everybody can use it."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.page.fake_api import dead_letter, error, finding, inbox, message, run
from tests.page.steps import CONTRAST, at, wait_until

CLIPPED = """
elements => elements.filter((element) => {
  const [box, cell] = [element, element.closest("th, td")].map((it) => it.getBoundingClientRect());
  return box.left < cell.left || box.right > cell.right || box.bottom > cell.bottom;
}).map((element) => element.innerText)
"""
"""The texts of those elements that their cells cut off."""

# Refreshing


@pytest.fixture
def clock(page):
    """The browser's clock, which all tests of a browser share."""
    page.clock.install()
    yield page.clock
    page.clock.resume()


def test_the_page_refreshes_every_ten_seconds_and_only_while_it_is_seen(page, visit, host, clock):
    page.add_init_script(
        "Object.defineProperty(document, 'hidden', {get: () => globalThis.isHidden ?? false});"
        "globalThis.hide = (value) => {"
        "  isHidden = value; document.dispatchEvent(new Event('visibilitychange'));"
        "}"
    )
    visit()
    page.get_by_role("link", name="orders-1").wait_for()

    before = request_count(host, "inboxes")
    clock.run_for(10_500)
    wait_until(page, lambda: request_count(host, "inboxes") == before + 1)
    page.get_by_text("Updated").wait_for()
    page.evaluate("hide(true)")
    clock.run_for(120_000)
    assert request_count(host, "inboxes") == before + 1
    page.evaluate("hide(false)")
    clock.run_for(100)
    wait_until(page, lambda: request_count(host, "inboxes") == before + 2)


def test_an_open_inbox_needs_one_request_for_each_refresh(page, visit, api, host, clock):
    """The API server's load by many browsers depends on little else than the number of requests."""
    visit(at())
    wait_until(page, lambda: request_count(host, "messages") == 1)
    clock.pause_at(datetime.fromtimestamp(page.evaluate("Date.now()") / 1000 + 5))

    for turn in range(1, 4):
        api.fetched_at = f"2026-11-23T12:00:{turn}0+00:00"
        api.inboxes[0]["status"] = f"number {turn}"
        host.requests.clear()
        wait_until(page, lambda: clock.run_for(500) or host.requests)
        page.get_by_text(f"number {turn}").wait_for()
        assert [request.parts[-1] for request in host.requests] == ["messages"]


def test_counts_that_a_list_lacks_are_requested_when_it_refreshes(page, visit, api, host, clock):
    summary = api.summary_of_inbox()
    summary["counts"]["available"] = 77
    api.inboxes = [inbox(1, summary=summary), inbox(2)]
    visit()
    page.get_by_role("link", name="77").wait_for()
    page.get_by_role("row").nth(2).get_by_role("link", name="4").wait_for()
    assert request_count(host, "summary") == 1
    newer = api.summary_of_inbox() | {"fetched_at": "2026-11-23T12:00:10+00:00"}
    api.inboxes = [inbox(1, summary=newer), inbox(2)]
    clock.run_for(10_000)
    wait_until(page, lambda: request_count(host, "inboxes") == 2)
    assert request_count(host, "summary") == 1

    clock.run_for(20_500)
    wait_until(page, lambda: request_count(host, "summary") == 2)
    assert {request.parts[3] for request in host.requests if request.parts[-1] == "summary"} == {
        inbox(2)["id"]
    }


def request_count(host, last):
    """How many requests had a path that ends so."""
    return len([request for request in host.requests if request.parts[-1] == last])


def test_the_focus_stays_where_it_is_when_the_page_refreshes(page, visit, api):
    api.messages = [message(1), message(2)]
    visit(at())
    link = page.get_by_role("link", name=message(2)["id"])
    link.focus()
    api.messages = [message(0), message(2, delivery_count=2)]
    page.get_by_role("button", name="Refresh messages").dispatch_event("click")
    page.get_by_role("cell", name="2", exact=True).wait_for()

    assert link.evaluate("link => link === document.activeElement")


# Everybody can use it


def test_a_phone_shows_state_available_and_runs(page, visit):
    page.set_viewport_size({"width": 390, "height": 844})
    visit()
    page.get_by_role("link", name="4", exact=True).wait_for()

    heads = page.get_by_role("columnheader")
    assert heads.all_inner_texts() == ["Inbox", "State", "Available", "DAG runs, last hour"]
    row = page.get_by_role("row").nth(1)
    for shown in (*heads.all(), row.get_by_text("quarantined"), row.get_by_text("1,200 success")):
        box = shown.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    parts = page.get_by_role("region").locator("th button, .wf-badge, td a").filter(visible=True)
    assert parts.evaluate_all(CLIPPED) == []
    heights = {row.bounding_box()["height"] for row in page.locator("tbody tr:not(.wf-gap)").all()}
    assert heights == {60}


@pytest.mark.parametrize(
    ("tab", "heads"),
    [
        ("messages", ["Message", "Status", "Deliveries", "DAG run"]),
        ("dead-letters", ["Reason", "Replay"]),
    ],
)
def test_a_phone_shows_an_inbox_without_scrolling_to_the_side(page, visit, api, tab, heads):
    page.set_viewport_size({"width": 390, "height": 844})
    api.messages = [message(1, status="dead-lettered", delivery_count=4, dead_letter=run("dead_letters"))]
    api.dead_letters = [dead_letter(1), dead_letter(2, replayed=run())]
    visit(at(more=f"&tab={tab}"))
    page.get_by_role("row").nth(1).wait_for()

    shown = page.get_by_role("columnheader")
    assert shown.all_inner_texts() == heads
    region = page.get_by_role("region")
    assert region.evaluate("box => box.scrollWidth <= box.clientWidth")
    parts = region.locator("th button, .wf-badge, .wf-btn, td a").filter(visible=True)
    assert parts.count() > len(heads)
    assert parts.evaluate_all(CLIPPED) == []


def test_the_buttons_of_a_dialog_stay_in_view_whatever_it_shows(page, visit, api):
    page.set_viewport_size({"width": 1400, "height": 500})
    api.dead_letters = [dead_letter(1, cause="it is too long " * 200)]
    visit(at(more="&tab=dead-letters"))
    page.get_by_role("button", name="Replay").click()

    page.get_by_role("dialog").get_by_text('"amount"').first.wait_for()
    box = page.get_by_role("button", name="Start DAG run").bounding_box()
    assert box["y"] + box["height"] <= 500


def test_the_keyboard_reaches_everything_in_order(page, visit):
    visit()
    page.get_by_role("link", name="4", exact=True).wait_for()
    page.get_by_role("combobox", name="Connection").focus()
    names = []
    for _ in range(22):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate(
                "(({ariaLabel, labels, innerText}) =>"
                " ariaLabel ?? labels?.[0]?.firstChild.data ?? innerText)(document.activeElement)"
            )
        )

    assert names == [
        *("Inboxes", "Dead letters", "Filter inboxes", "State", "Refresh inboxes", "inboxes"),
        *("Inbox", "State", "Available", "Leased", "Quarantined"),
        *("Oldest message", "Listening DAGs", "DAG runs, last hour"),
        *("orders-1", "4", "2", "1", "handle_1", "3 failed", "1 dead letter", "1,200 success"),
    ]


def test_the_focus_goes_to_the_heading_of_the_next_page(page, visit):
    visit()
    page.get_by_role("link", name="orders-1").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders-1").wait_for()

    wait_until(page, lambda: page.evaluate("document.activeElement.innerText") == "orders-1")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_all_texts_have_contrast_in_light_and_dark(page, visit, api, mode):
    states = ["success", "running", "failed", "queued"]
    api.inboxes = [
        inbox(1),
        inbox(2, status="paused", paused_text="The login expired."),
        inbox(3, status="initializing"),
        inbox(4, status="initialization_failure", listeners=[]),
    ]
    api.messages = [
        message(n, status=status, run=run(state=states[n]))
        for n, status in enumerate(["available", "leased", "quarantined", "started"])
    ]
    api.findings = [finding("inbox orders-2", "it is paused", inbox=inbox(2)["id"], dags=[{"dag_id": "d"}])]
    api.failing["summary"] = error(502, "unreachable", "The service does not answer.", "Check the base URL.")
    page.add_init_script(f"localStorage.setItem('theme', '{mode}')")
    contrasts = []
    for query in ("", at()):
        visit(query)
        page.get_by_role("row").nth(4).wait_for()
        contrasts += page.evaluate(CONTRAST)
    page.get_by_role("button", name="Pause orders-1").click()
    contrasts += page.evaluate(CONTRAST)

    assert page.evaluate("document.documentElement.classList.contains('dark')") == (mode == "dark")
    assert len(contrasts) > 60
    assert [contrast for contrast in contrasts if contrast[1] < 4.5] == []
