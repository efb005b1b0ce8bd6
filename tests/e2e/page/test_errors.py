"""What the page says where it has nothing to show."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.page.fake_api import error, inbox, message
from tests.page.host import Answer
from tests.page.steps import at


@pytest.mark.parametrize(
    ("attributes", "query", "words"),
    [
        ({"connections": []}, "", "There is no Workflow connection yet."),
        ({"connections": [], "may_add": False}, "", "You are not allowed to see any Workflow connection."),
        ({}, "inbox=unknown", "The service has no such inbox."),
        ({"inboxes": []}, "", "This connection has no inboxes."),
        ({}, at(9), "This connection has no such inbox."),
        ({}, at(), "The inbox is empty."),
        ({}, at(more="&tab=dead-letters"), "There are no dead letters."),
        ({}, "tab=dead-letters", "There are no dead letters."),
        ({"messages": [message()]}, at(more="&status=started"), "No messages match the filter."),
        ({}, "text=absent", "No inboxes match the filter."),
    ],
)
def test_where_nothing_is_the_page_says_why(page, visit, api, attributes, query, words):
    for name, value in attributes.items():
        setattr(api, name, value)
    visit(query)

    page.get_by_text(words).wait_for()


def test_a_user_who_is_logged_out_comes_back_to_the_same_place(page, visit, api):
    api.failing["messages"] = Answer({"detail": "Not authenticated"}, 401)
    visit(at())

    link = page.get_by_role("link", name="Log in")
    assert link.get_attribute("href") == f"/api/v2/auth/login?next={quote(page.url, safe='')}"


def test_an_error_is_shown_with_its_fix_and_the_page_tries_again_on_demand(page, visit, api):
    api.failing["inboxes"] = error(502, "unreachable", "The service does not answer.", "Check the base URL.")
    visit()
    alert = page.get_by_role("alert")
    alert.get_by_text("The service does not answer.").wait_for()
    alert.get_by_text("Check the base URL.").first.wait_for()
    again = alert.get_by_role("button", name="Try again")
    again.wait_for()
    api.failing.clear()
    again.click()

    page.get_by_role("link", name="orders-1").wait_for()
    assert alert.count() == 0


def test_data_stay_in_sight_when_the_next_request_fails(page, visit, api):
    api.messages = [message()]
    visit(at())
    page.get_by_role("cell", name=message()["id"]).wait_for()
    api.failing["messages"] = error(502, "unreachable", "The service does not answer.", "Check the base URL.")
    page.get_by_role("button", name="Refresh messages").click()

    page.get_by_role("alert").get_by_text("What is shown was loaded before.").wait_for()
    assert page.get_by_role("cell", name=message()["id"]).is_visible()


def test_what_every_request_says_is_shown_once(page, visit, api):
    forbidden = Answer({"detail": "Forbidden"}, 403)
    api.failing = dict.fromkeys(("messages", "summary", inbox()["id"]), forbidden)
    visit(at())

    page.get_by_role("alert").get_by_text("does not allow").wait_for()
    page.wait_for_timeout(500)
    assert page.get_by_role("alert").count() == 1
