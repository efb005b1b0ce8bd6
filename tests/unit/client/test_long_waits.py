"""What a trigger says before it waits at a rate gate for so long that it would seem dead."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.conversation import Parties, attempt
from airflow_provider_workflow.client.errors import RateLimitError
from airflow_provider_workflow.client.retry import LONGEST_WAIT_IN_A_TASK, Gates
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import Answer
from tests.unit.client.senders import Hands

SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token")


def told_to_wait(hands: Hands, gates: Gates, seconds: int, times: int, longest: float | None) -> None:
    """Some calls that are under way at once, each told to wait."""
    cache: Any = None
    who = Parties(SETTINGS, cache, gates, longest, lambda _: None)
    calls = [attempt(api.list_templates(None), who) for _ in range(times)]
    for call in calls:
        next(call)
    for call in calls:
        with pytest.raises(RateLimitError):
            call.send(Answer(429, {"retry-after": str(seconds)}, b""))


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def gates(hands: Hands) -> Gates:
    return Gates(hands)


def test_a_long_wait_is_said_once_however_many_wait(
    hands: Hands, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(hands, gates, 3600, 3, None)
    assert caplog.text.count("The service wants no templates calls for 3600 s; waiting") == 1

    hands.now += 3601
    told_to_wait(hands, gates, 7200, 3, None)
    assert caplog.text.count("; waiting") == 2


@pytest.mark.parametrize(
    ("seconds", "longest"), [(60, None), (3600, LONGEST_WAIT_IN_A_TASK)], ids=["short", "in a task"]
)
def test_a_short_wait_is_no_line_nor_one_that_fails_its_task(
    seconds: int, longest: float | None, hands: Hands, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(hands, gates, seconds, 1, longest)

    assert caplog.text == ""
