"""What a trigger counts."""

from __future__ import annotations

from tests.unit.counted import Counted, counted
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["counted"]


async def test_a_trigger_counts_what_it_leases(
    bench: Workbench, fake_clock: FakeClock, counted: Counted
) -> None:
    bench.put("a", "b")
    await fire(trigger())

    assert counted.totals == {"leased": 2}
    assert counted.tags == [{"inbox": INBOX, "conn_id": "workflow_default"}]
