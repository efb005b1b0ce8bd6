"""Suggested workflows."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.workflows import guess


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
