"""The clock of the package, and the fake that replaces it in tests."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_workflow import clock


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


# The fake
