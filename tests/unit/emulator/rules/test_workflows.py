"""Rules of the emulator: guesses and templates."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.rules.workflows import guess


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
