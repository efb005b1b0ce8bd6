"""Rules of the emulator: guesses and templates."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.workflows import guess, templates


def apps(text: str) -> list[str]:
    return [step["step"]["app"] for step in guess(text, "http://host")["steps"]]


def test_the_steps_are_the_apps_that_the_text_names_in_its_order() -> None:
    assert apps("When a form is submitted, add a row and send an email") == ["Form", "Spreadsheet", "Mail"]


@pytest.mark.specification("13.1 200")
def test_the_answer_has_every_field_of_the_specification() -> None:
    answer = guess("when an order comes in, tell the chat channel.", "http://host")
    assert answer["title"] == "When an order comes in, tell the chat channel"
    assert answer["steps"][0] == {
        "step": {"title": "New Order", "app": "Shop", "api": "ShopAPI@1.0.0"},
        "alternatives": [
            {"title": "New Email", "app": "Mail", "api": "MailAPI@1.0.0"},
            {"title": "New Message", "app": "Chat", "api": "ChatAPI@1.0.0"},
        ],
    }
    assert answer["steps"][1]["step"]["title"] == "Send Message"
    assert answer["prefilled_url"] == "http://host/editor?step=ShopAPI%401.0.0&step=ChatAPI%401.0.0"
    assert "messages" not in answer


def test_the_same_text_gives_the_same_answer() -> None:
    assert guess("Copy files to the archive", "http://host") == guess(
        "Copy files to the archive", "http://host"
    )


@pytest.mark.parametrize("text", ["Save new files", "Post in chat"])
def test_a_text_with_too_few_apps_is_filled_up_and_says_so(text: str) -> None:
    answer = guess(text, "http://host")
    assert len(answer["steps"]) == 2
    assert answer["messages"][0]["detail"]


@pytest.mark.parametrize("text", ["", None, "hello there", "12345"])
def test_a_text_that_describes_no_workflow_is_refused_with_messages(text: Any) -> None:
    with pytest.raises(ServiceError) as refusal:
        guess(text, "http://host")
    assert refusal.value.status == 400
    assert set(refusal.value.body) == {"messages"}
    assert refusal.value.body["messages"][0]["detail"]


def test_five_come_by_default_with_every_field() -> None:
    found = templates("http://host")
    assert len(found) == 5
    fields = "id title slug status description description_plain description_raw url create_url type steps"
    assert set(found[0]) == set(fields.split())
    assert set(found[0]["steps"][0]) == {"id", "uuid", "title", "slug", "api", "label"}


def test_pages_cover_everything_once_and_end_short() -> None:
    seen: list[int] = []
    while page := templates("http://host", limit=100, offset=len(seen)):
        seen += [each["id"] for each in page]
    assert len(seen) == len(set(seen)) == 14 * 13


def test_templates_are_filtered_by_all_the_apps() -> None:
    found = templates("http://host", ["shop", "mail"], limit=100)
    assert [{step["slug"] for step in each["steps"]} for each in found] == [{"shop", "mail"}] * 2
    assert templates("http://host", ["unheard-of"]) == []
