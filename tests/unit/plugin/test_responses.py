"""What was fetched is kept for a while; few requests fetch at once, and none queues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from airflow_provider_workflow.plugin import service
from airflow_provider_workflow.plugin.responses import PageError, invalid
from airflow_provider_workflow.plugin.service import MOST_AT_ONCE, MOST_KEPT, Key
from tests.unit.fake_clock import FakeClock

KEY = ("a connection", "inboxes")
TIMEOUT = 20


class Fetching:
    """Fetches of a service, each of which lasts until it is told what it brings."""

    def __init__(self) -> None:
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

    def start(self, key: Key = KEY) -> Future[Any]:
        """Ask in a thread, and wait until it fetches."""
        asked = self.ask(key)
        assert self._began.acquire(timeout=TIMEOUT)
        return asked

    def ask(self, key: Key = KEY) -> Future[Any]:
        return self._pool.submit(service.answer, key, self.fetch)

    def bring(self, value: Any) -> None:
        """End all fetches."""
        results, self._results = self._results, []
        for each in results:
            each.set_result(value)

    def close(self) -> None:
        self.bring({})
        self._pool.shutdown()


@pytest.fixture
def fetching() -> Iterator[Fetching]:
    made = Fetching()
    yield made
    made.close()


def fail() -> Any:
    raise invalid("no")


def test_an_answer_is_kept_for_10_seconds_and_the_listeners_for_a_minute(fake_clock: FakeClock) -> None:
    values = iter([{"n": 1}, {"n": 2}, {"n": 3}])

    def answered(key: Key = KEY) -> int:
        return int(service.answer(key, lambda: next(values))["n"])

    assert [answered(), answered(service.LISTENERS)] == [1, 2]
    fake_clock.advance(9.9)
    assert answered() == 1
    fake_clock.advance(0.2)
    assert answered() == 3
    fake_clock.advance(49)
    assert answered(service.LISTENERS) == 2
    fake_clock.advance(1)
    assert service.known(service.LISTENERS) is None


def test_an_error_is_kept_too_and_each_reader_gets_one_of_its_own() -> None:
    """An exception that is raised twice keeps the frames of both, which hold what the service sent."""
    raised = []
    for fetch in (fail, lambda: pytest.fail("fetched")):
        with pytest.raises(PageError, match="no") as caught:
            service.answer(KEY, fetch)
        raised.append(caught.value)

    kept = service.known(KEY)
    assert raised[0] is not raised[1]
    assert raised[0].body == raised[1].body == invalid("no").body
    assert isinstance(kept, PageError)
    assert (kept.__traceback__, kept.__context__) == (None, None)


def test_what_a_change_makes_wrong_is_forgotten(fetching: Fetching) -> None:
    service.answer(("another",), lambda: {"n": "kept"})
    service.answer(KEY, lambda: {"n": "before"})
    meanwhile = (*KEY, "meanwhile")
    asked = fetching.start(meanwhile)

    service.forget(KEY[0])
    fetching.bring({"n": "before"})

    assert asked.result(TIMEOUT) == {"n": "before"}
    for key in (meanwhile, KEY):
        assert service.answer(key, lambda: {"n": "after"}) == {"n": "after"}
    assert service.answer(("another",), lambda: pytest.fail("fetched")) == {"n": "kept"}


def test_requests_for_the_same_wait_for_one_fetch(fetching: Fetching) -> None:
    first = fetching.start()
    others = [fetching.ask() for _ in range(MOST_AT_ONCE - 1)]

    fetching.bring({"n": "a"})

    assert [each.result(TIMEOUT) for each in (first, *others)] == [{"n": "a"}] * MOST_AT_ONCE
    assert fetching.begun == 1


def test_at_most_4_requests_are_in_progress_and_none_queues(fetching: Fetching) -> None:
    for number in range(MOST_AT_ONCE):
        fetching.start(("a connection", str(number)))

    for key in (("a connection", "0"), ("another", "9")):
        with pytest.raises(PageError) as caught:
            service.answer(key, fetching.fetch)
        assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "busy", 1)
    with pytest.raises(PageError), service.slot():
        raise AssertionError
    assert fetching.begun == MOST_AT_ONCE == 4


def test_what_is_kept_has_a_limit_of_items_and_what_was_used_last_stays(fake_clock: FakeClock) -> None:
    """A reader chooses the keys: with each cursor the service gives another 500 inboxes."""
    assert fake_clock
    fetched: list[int] = []
    service.answer(KEY, lambda: {"inboxes": ["of use"]})

    def again(number: int) -> Any:
        fetched.append(number)
        return {}

    for number in range(1_000):
        service.answer((*KEY, str(number)), lambda: {"inboxes": 500 * ["an inbox"]})
        service.answer(KEY, lambda: pytest.fail("dropped"))
    for number in range(1_000):
        service.answer((*KEY, str(number)), lambda number=number: again(number))  # type: ignore[misc]

    assert 0 < 1_000 - len(fetched) <= MOST_KEPT // 500
    huge = {"inboxes": 2 * MOST_KEPT * ["an inbox"]}
    assert service.answer((*KEY, "huge"), lambda: huge) == huge


def test_a_slot_is_free_again_after_an_error_that_nobody_expected() -> None:
    for _ in range(2 * MOST_AT_ONCE):
        with pytest.raises(ZeroDivisionError):
            service.answer(KEY, lambda: 1 // 0)
    with ExitStack() as held:
        for _ in range(MOST_AT_ONCE):
            held.enter_context(service.slot())
