"""The page opens where it should, and stays there."""

from __future__ import annotations

import re

from tests.page.fake_api import CONNECTION, inbox
from tests.page.host import airflow_ui, serving

# Where the page is


def test_a_filter_goes_into_the_url_and_the_way_back_leads_to_the_list(page, visit, api):
    api.inboxes = [inbox(1), inbox(2)]
    visit()
    page.get_by_role("link", name="orders-2").click()
    page.get_by_role("heading", name="orders-2").wait_for()
    page.get_by_role("searchbox").fill("ünï&c=d")
    page.wait_for_url(re.compile(re.escape("text=%C3%BCn%C3%AF%26c%3Dd")))

    page.go_back()
    page.get_by_role("heading", name="Inboxes").wait_for()
    page.get_by_role("link", name="orders-1").wait_for()


def test_requests_and_links_are_below_the_base_path_of_airflow(page, api):
    ui = airflow_ui()
    assert ui
    with serving(ui, api, "/some/airflow/") as host:
        page.goto(f"{host.url}plugin/workflow-inboxes")
        listener = page.get_by_role("link", name="handle_1")
        listener.wait_for()

        assert listener.get_attribute("href") == "/some/airflow/dags/handle_1"
        assert page.get_by_role("link", name="orders-1").get_attribute("href") == (
            f"/some/airflow/plugin/workflow-inboxes?connection={CONNECTION}&inbox={inbox()['id']}"
        )


def test_a_link_may_name_an_inbox(page, visit, api, host):
    api.inboxes = [inbox(1), inbox(2)]
    visit("inbox=orders-2&status=leased")

    page.get_by_role("heading", name="orders-2").wait_for()
    page.wait_for_url(re.compile(inbox(2)["id"]))
    assert page.get_by_role("combobox", name="Status").input_value() == "leased"
    assert "orders-2" not in [
        request.parts[3] for request in host.requests if request.parts[-1] in ("messages", "summary")
    ]
