"""What a measurement of triggerers waits for."""

from types import SimpleNamespace

import pytest
import requests

from benchmarks.scale.fleet import Fleet


@pytest.fixture
def fleet():
    def wait_until(done, timeout, what, *, interval):
        for _ in range(int(timeout / interval)):
            if done():
                return
        raise TimeoutError(what)

    return Fleet(SimpleNamespace(api=SimpleNamespace(wait_until=wait_until)), None, None, 1)


def test_a_service_that_does_not_answer_in_time_is_asked_again(fleet):
    answers = [requests.ReadTimeout("no answer"), False, requests.ConnectionError("no answer"), True]

    def done():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fleet.seconds_until(done, 10, 0.0)

    assert answers == []


def test_what_is_missing_in_the_end_fails_nothing(fleet):
    fleet.seconds_until(lambda: False, 1, 0.0)
