"""The clock of the package, and the fake that replaces it in tests."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from airflow_provider_workflow import clock
from tests.unit.fake_clock import QUIET_TURNS, START, FakeClock


async def test_the_clock_of_the_process_is_that_of_the_machine() -> None:
    assert time.time() <= clock.now() <= time.time()
    assert time.monotonic() <= clock.monotonic() <= time.monotonic()
    began = time.monotonic()
    clock.sleep(0.001)
    await clock.async_sleep(0.001)
    assert time.monotonic() - began >= 0.0019


async def test_what_takes_longer_than_its_time_is_cancelled() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        async with clock.timeout(0):
            await never
    assert never.cancelled()


async def test_a_wait_for_others_ends_in_time_and_leaves_them_alone() -> None:
    never = asyncio.get_running_loop().create_future()
    await clock.wait({never}, 0)
    assert not never.done()


def test_another_clock_is_asked_in_all_threads_and_only_while_it_is_in_use() -> None:
    seen: list[float] = []
    with clock.use(FakeClock(5.0)):
        thread = threading.Thread(target=lambda: seen.append(clock.now()))
        thread.start()
        thread.join()
    assert seen == [5.0]
    assert clock.now() > START


# The fake


def test_a_fake_clock_moves_by_its_sleeps_alone_and_records_them(fake_clock: FakeClock) -> None:
    clock.sleep(2)
    clock.sleep(0)
    clock.sleep(0.5)

    assert (clock.now(), clock.monotonic()) == (START + 2.5, START + 2.5)
    assert fake_clock.slept == [2, 0.5]
    assert fake_clock.elapsed == 2.5


async def test_it_moves_by_sleeps_in_a_loop_and_gives_others_their_turn(fake_clock: FakeClock) -> None:
    other = asyncio.ensure_future(asyncio.sleep(0))
    await clock.async_sleep(60)
    await asyncio.sleep(0)

    assert other.done()
    assert (fake_clock.elapsed, fake_clock.slept) == (60, [60])


async def test_something_may_happen_in_each_sleep(fake_clock: FakeClock) -> None:
    happened: list[str] = []
    fake_clock.then(lambda: happened.append("one"), lambda: happened.append("two"))
    for _ in range(3):
        clock.sleep(1)
    assert happened == ["one", "two"]

    async def meanwhile(seconds: float) -> None:
        happened.append(f"{seconds}")

    fake_clock.meanwhile = meanwhile
    await clock.async_sleep(7)
    assert happened == ["one", "two", "7"]


def test_what_is_due_happens_at_its_moment_in_order(fake_clock: FakeClock) -> None:
    happened: list[tuple[str, float]] = []
    for name, second in (("late", 3), ("early", 1), ("also late", 3), ("never", 9)):
        fake_clock.at(START + second, lambda name=name: happened.append((name, fake_clock.elapsed)))  # type: ignore[misc]
    clock.sleep(5)

    assert happened == [("early", 1), ("late", 3), ("also late", 3)]


def test_others_move_along(fake_clock: FakeClock) -> None:
    other = FakeClock(0.0)
    fake_clock.moved_along.append(other)
    fake_clock.advance(10)
    clock.sleep(5)

    assert other.now() == 15


async def test_tasks_that_sleep_side_by_side_wake_up_in_turn(fake_clock: FakeClock) -> None:
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        for _ in range(2):
            await clock.async_sleep(seconds)
            woken.append((name, fake_clock.elapsed))

    fake_clock.hold()
    tasks = [asyncio.ensure_future(sleeper("slow", 5)), asyncio.ensure_future(sleeper("fast", 3))]
    await fake_clock.elapse(9)
    assert woken == [("fast", 3), ("slow", 5), ("fast", 6)]
    await fake_clock.elapse(1)
    await asyncio.gather(*tasks)
    assert woken[3:] == [("slow", 10)]


async def test_a_time_limit_ends_by_the_fake_clock(fake_clock: FakeClock) -> None:
    never = asyncio.get_running_loop().create_future()

    async def limited() -> None:
        async with clock.timeout(10):
            await never

    task = asyncio.ensure_future(limited())
    await fake_clock.elapse(9.5)
    assert not task.done()
    await fake_clock.elapse(0.5)
    assert isinstance(task.exception(), asyncio.TimeoutError)
    assert never.cancelled()


async def test_a_time_limit_of_nothing_is_over_at_once(fake_clock: FakeClock) -> None:
    with pytest.raises(asyncio.TimeoutError):
        async with clock.timeout(0):
            await asyncio.Event().wait()


async def test_who_is_cancelled_within_a_time_limit_stays_cancelled(fake_clock: FakeClock) -> None:
    async def limited() -> None:
        async with clock.timeout(10):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(limited())
    await fake_clock.settle()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_who_ran_out_of_time_may_wait_on(fake_clock: FakeClock) -> None:
    async def limited() -> str:
        try:
            async with clock.timeout(10):
                await asyncio.Event().wait()
        except TimeoutError:
            await clock.async_sleep(5)
        return "over"

    fake_clock.hold()
    task = asyncio.ensure_future(limited())
    await fake_clock.elapse(15)
    assert task.result() == "over"


async def test_a_time_limit_that_was_kept_ends_nothing_later(fake_clock: FakeClock) -> None:
    async with clock.timeout(10):
        await asyncio.sleep(0)
    fake_clock.advance(20)
    await fake_clock.settle()


async def test_a_wait_for_others_ends_by_the_fake_clock(fake_clock: FakeClock) -> None:
    never = asyncio.get_running_loop().create_future()
    done = asyncio.ensure_future(asyncio.sleep(0))
    await clock.wait({done}, 10)
    assert done.done()

    task = asyncio.ensure_future(clock.wait({never}, 10))
    await fake_clock.elapse(9)
    assert not task.done()
    await fake_clock.elapse(1)
    assert task.done()
    assert not never.done()


async def test_nothing_settles_while_somebody_is_at_work_outside_of_the_loop(fake_clock: FakeClock) -> None:
    gate = threading.Event()
    work = fake_clock.counting(asyncio.to_thread)
    task = asyncio.ensure_future(work(gate.wait, 10))
    settling = asyncio.ensure_future(fake_clock.settle())
    for _ in range(2 * QUIET_TURNS):
        await asyncio.sleep(0)
    assert not settling.done()
    gate.set()
    await settling
    assert task.done()
