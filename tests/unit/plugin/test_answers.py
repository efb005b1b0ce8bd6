"""What was fetched is kept for a while; few requests fetch at once, and none queues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from airflow_provider_workflow.plugin.answers import MOST_AT_ONCE, MOST_KEPT, Answers
from airflow_provider_workflow.plugin.errors import PageError, invalid
from tests.unit.fake_clock import FakeClock

KEY = ("a connection", "inboxes")
TIMEOUT = 20


class Fetching:
    """Fetches of a service, each of which lasts until it is told what it brings."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.begun = 0
        self._began = threading.Semaphore(0)
        self._results: list[Future[Any]] = []
        self._pool = ThreadPoolExecutor(2 * MOST_AT_ONCE)

    def fetch(self) -> Any:
        result: Future[Any] = Future()
        self._results.append(result)
        self.begun += 1
        self._began.release()
        return result.result(TIMEOUT)

    def start(self, key: tuple[str, ...] = KEY) -> Future[Any]:
        """Ask in a thread, and wait until it fetches."""
        asked = self.ask(key)
        assert self._began.acquire(timeout=TIMEOUT)
        return asked

    def ask(self, key: tuple[str, ...] = KEY) -> Future[Any]:
        return self._pool.submit(self.answers.get, key, self.fetch)

    def bring(self, value: Any) -> None:
        """End all fetches."""
        results, self._results = self._results, []
        for each in results:
            if isinstance(value, Exception):
                each.set_exception(value)
            else:
                each.set_result(value)

    def close(self) -> None:
        self.bring(None)
        self._pool.shutdown()


@pytest.fixture
def fetching() -> Iterator[Fetching]:
    made = Fetching(Answers())
    yield made
    made.close()


def test_an_answer_is_kept_for_10_seconds(fake_clock: FakeClock) -> None:
    answers, values = Answers(), iter("ab")

    first = answers.get(KEY, lambda: next(values))
    fake_clock.advance(9.9)
    kept = answers.get(KEY, lambda: next(values))
    fake_clock.advance(0.1)
    second = answers.get(KEY, lambda: next(values))

    assert (first.value, kept, second.value) == ("a", first, "b")
    assert second.fetched_at - first.fetched_at == pytest.approx(10)


def test_an_answer_is_looked_up_without_a_fetch_and_one_caller_is_told_to_renew_it(
    fake_clock: FakeClock,
) -> None:
    answers = Answers()

    assert answers.peek(KEY, 30) is None
    answers.get(KEY, lambda: "a")

    def found(seconds: float) -> list[bool]:
        fake_clock.advance(seconds)
        return [answers.peek(KEY, 30) is not None for _ in range(3)]

    assert found(29.9) == [True, True, True]
    assert found(0.1) == [False, True, True]
    assert found(9.9) == [True, True, True]
    assert found(0.1) == [False, True, True]
    assert found(19.9) == [False, True, True]
    assert found(0.1) == [False, False, False]
    assert answers.get(KEY, lambda: "b").value == "b"
    assert found(0) == [True, True, True]


def test_an_error_is_not_looked_up() -> None:
    answers = Answers()

    def fail() -> Any:
        raise invalid("no")

    answers.get(KEY, fail)

    assert answers.peek(KEY, 30) is None


def test_a_value_that_came_with_another_one_is_kept_as_if_it_had_been_fetched(fake_clock: FakeClock) -> None:
    answers = Answers()

    answers.put(KEY, "a")
    fake_clock.advance(9)

    kept = answers.get(KEY, lambda: pytest.fail("fetched"))
    assert (kept.value, kept.fetched_at) == ("a", fake_clock.now() - 9)


def test_a_value_that_came_with_another_one_lasts(fake_clock: FakeClock) -> None:
    answers = Answers()
    answers.put(KEY, "a")
    fake_clock.advance(61)
    answers.put((*KEY, "another"), "b")

    def fail() -> Any:
        raise invalid("no")

    assert answers.get(KEY, fail, is_lasting=True).value == "a"


def test_an_error_is_kept_with_the_former_value(fake_clock: FakeClock) -> None:
    answers, error, fetched = Answers(), invalid("no"), []

    def fail() -> Any:
        fetched.append(1)
        raise error

    first = answers.get(KEY, lambda: "a")
    fake_clock.advance(10)
    for _ in range(3):
        failed = answers.get(KEY, fail)

    assert (failed.value, failed.fetched_at) == ("a", first.fetched_at)
    assert failed.error is not None
    assert failed.error.body == error.body
    assert fetched == [1]


def test_what_a_change_makes_wrong_is_forgotten(fetching: Fetching) -> None:
    answers = fetching.answers
    answers.get(("another",), lambda: "kept")
    answers.get(KEY, lambda: "before")
    other = fetching.start((*KEY, "meanwhile"))

    answers.forget(KEY[0])
    fetching.bring("before")

    assert other.result(TIMEOUT).value == "before"
    assert answers.get((*KEY, "meanwhile"), lambda: "after").value == "after"
    assert answers.get(KEY, lambda: "after").value == "after"
    assert answers.get(("another",), lambda: "fetched").value == "kept"


def test_requests_for_the_same_wait_for_one_fetch(fetching: Fetching) -> None:
    first = fetching.start()
    others = [fetching.ask() for _ in range(MOST_AT_ONCE - 1)]

    fetching.bring("a")

    assert [each.result(TIMEOUT).value for each in (first, *others)] == ["a"] * MOST_AT_ONCE
    assert fetching.begun == 1


def test_the_former_answer_is_given_while_a_new_one_is_fetched(
    fetching: Fetching, fake_clock: FakeClock
) -> None:
    fetching.answers.get(KEY, lambda: "former")
    fake_clock.advance(30)
    fetching.start()

    assert [fetching.answers.get(KEY, fetching.fetch).value for _ in range(50)] == ["former"] * 50
    assert fetching.begun == 1


def test_an_answer_kept_for_a_minute_is_given_for_one_more_while_it_is_fetched(fake_clock: FakeClock) -> None:
    fetching = Fetching(Answers(60.0))
    try:
        fetching.answers.get(KEY, lambda: "former")
        fake_clock.advance(60)
        fetching.start()
        fake_clock.advance(59.9)

        assert [fetching.answers.get(KEY, fetching.fetch).value for _ in range(50)] == ["former"] * 50
        assert fetching.begun == 1
    finally:
        fetching.close()


def test_at_most_4_requests_are_in_progress_and_none_queues(fetching: Fetching) -> None:
    for number in range(MOST_AT_ONCE):
        fetching.start(("a connection", str(number)))

    for key in (("a connection", "0"), ("a connection", "9")):
        with pytest.raises(PageError) as caught:
            fetching.answers.get(key, fetching.fetch)
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "busy", 1)
    with pytest.raises(PageError), fetching.answers.slot():
        raise AssertionError
    assert fetching.begun == MOST_AT_ONCE == 4


def test_a_service_that_did_not_answer_gets_one_slot_until_it_answers_and_the_others_keep_theirs(
    fetching: Fetching, fake_clock: FakeClock
) -> None:
    answers, hanging = fetching.answers, PageError(504, "timeout", "no answer", "check it")
    first = [fetching.start(("hangs", str(number))) for number in range(MOST_AT_ONCE)]
    fetching.bring(hanging)
    errors = [asked.result(TIMEOUT).error for asked in first]
    assert [error and error.body for error in errors] == [hanging.body] * MOST_AT_ONCE

    probe = fetching.start(("hangs", "probe"))
    with pytest.raises(PageError, match="limit of simultaneous"):
        answers.get(("hangs", "other"), lambda: "not fetched")
    with ExitStack() as held:
        for _ in range(MOST_AT_ONCE - 1):
            held.enter_context(answers.slot())
    assert answers.get(KEY, lambda: "of another connection").value == "of another connection"
    fetching.bring("answers again")
    assert probe.result(TIMEOUT).value == "answers again"

    fake_clock.advance(10)
    fetching.start(("hangs", "0"))
    fetching.start(("hangs", "1"))


def test_answers_are_dropped_after_a_minute_unless_they_are_of_use_without_a_service(
    fake_clock: FakeClock,
) -> None:
    answers, fetched = Answers(), []
    answers.get((*KEY, "large"), lambda: "large")
    answers.get((*KEY, "counts"), lambda: "counts", is_lasting=True)
    fake_clock.advance(61)
    answers.get(KEY, lambda: "another")

    def fail() -> Any:
        fetched.append(1)
        raise invalid("no")

    assert answers.get((*KEY, "large"), fail).value is None
    assert answers.get((*KEY, "counts"), fail, is_lasting=True).value == "counts"
    assert fetched == [1, 1]


def test_what_is_kept_has_a_limit_of_items_and_what_was_used_last_stays(fake_clock: FakeClock) -> None:
    """A reader chooses the keys: with each cursor the service gives another 500 inboxes."""
    answers, fetched = Answers(), []
    answers.get(KEY, lambda: ["of use"])

    for number in range(1_000):
        answers.get((*KEY, str(number)), lambda: 500 * ["an inbox"])
        answers.get(KEY, lambda: pytest.fail("dropped"))
    for number in range(1_000):
        answers.get((*KEY, str(number)), lambda: fetched.append(1))

    assert 0 < 1_000 - len(fetched) <= MOST_KEPT // 500
    assert answers.get((*KEY, "huge"), lambda: 2 * MOST_KEPT * ["an inbox"]).error is None


def test_what_led_to_an_error_is_not_kept() -> None:
    """Its frames hold what the service sent, up to 16 MB."""

    def fail() -> Any:
        try:
            raise ValueError("what the service sent")
        except ValueError:
            raise invalid("no") from None

    kept = Answers().get(KEY, fail).error

    assert kept is not None
    assert (kept.__traceback__, kept.__context__) == (None, None)


def test_each_reader_of_an_error_gets_an_exception_of_its_own() -> None:
    answers = Answers()

    def fail() -> Any:
        raise invalid("no")

    raised = []
    for _ in range(2):
        with pytest.raises(PageError, match="no") as caught:
            answers.get(KEY, fail).fetched()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert raised[0].body == raised[1].body == invalid("no").body


def test_a_slot_is_free_again_after_an_error_that_nobody_expected() -> None:
    answers = Answers()

    for _ in range(2 * MOST_AT_ONCE):
        with pytest.raises(ZeroDivisionError):
            answers.get(KEY, lambda: 1 // 0)
    with ExitStack() as held:
        for _ in range(MOST_AT_ONCE):
            held.enter_context(answers.slot())
