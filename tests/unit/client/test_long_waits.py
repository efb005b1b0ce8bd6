"""What is logged where the service requests a longer wait than the maximum."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Family
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import RateLimitError
from airflow_provider_workflow.client.exchange import Gates
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import BELIEVED_WAIT_SECONDS, Answer
from tests.unit.fake_clock import FakeClock

SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token")


def told_to_wait(gates: Gates, seconds: str, times: int = 1) -> None:
    """Some calls that are under way at once, each told to wait."""
    client = WorkflowClient(SETTINGS, gates=gates)
    calls = [client.attempt(api.list_templates(None)) for _ in range(times)]
    for call in calls:
        next(call)
    for call in calls:
        with pytest.raises(RateLimitError):
            call.send(Answer(429, {"retry-after": seconds}, b""))


@pytest.fixture
def gates(fake_clock: FakeClock) -> Gates:
    return Gates()


@pytest.mark.parametrize("seconds", ["30000", "1900000000", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_wait_that_is_not_believed_ends_after_fifteen_minutes_and_is_logged(
    seconds: str, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, seconds)

    assert gates.delay(SETTINGS, Family.TEMPLATES) == BELIEVED_WAIT_SECONDS == 900
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "they are sent again after 900 s, the maximum wait" in record.getMessage()


def test_it_is_logged_once_for_all_calls_that_were_under_way(
    fake_clock: FakeClock, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, "3600", times=3)
    assert caplog.text.count("requests no templates calls for 3600 s") == 1

    fake_clock.advance(901)
    told_to_wait(gates, "3600", times=3)
    assert caplog.text.count("requests no templates calls for 3600 s") == 2


def test_a_wait_that_is_believed_is_logged_by_whoever_waits_alone(
    fake_clock: FakeClock, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, "900")

    assert caplog.text == ""
