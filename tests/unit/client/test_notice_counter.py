"""The notices of an event stream are counted, whatever way its bytes are cut."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.client.event_stream import BusyStreamError, NoticeCounter
from tests.unit.fake_clock import FakeClock

NOTICES = [{"inbox_id": "i", "count": 1}, {"inbox_id": "é", "count": 2}]
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def fed(*chunks: bytes) -> int:
    """Notices of a stream."""
    counter = NoticeCounter()
    return sum(counter.feed(chunk) for chunk in chunks)


@given(cuts=st.lists(st.integers(0, 200), max_size=8), end=ENDS)
@example(cuts=list(range(200)), end=b"\r\n")
def test_notices_survive_any_cut(cuts: list[int], end: bytes) -> None:
    frames = [b"data: " + json.dumps(each).encode() + end * 2 for each in NOTICES]
    whole = frames[0] + b": keep-alive" + end * 2 + frames[1]
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert fed(*(whole[a:b] for a, b in itertools.pairwise(places))) == 2


@pytest.mark.parametrize("data", [b"not json", b"", b"null", b"\xff", b"[" * 60_000])
def test_a_notice_that_cannot_be_read_is_still_a_notice(data: bytes) -> None:
    assert fed(b"data: " + data + b"\n\n") == 1


def test_a_byte_order_mark_hides_no_notice() -> None:
    assert fed(b"\xef\xbb\xbfdata: {}\n\n") == 1


@pytest.mark.parametrize(
    "silence", [b": keep-alive\n\n", b"\n\n\n", b"event: x\nid: 1\nretry: 5\n\n", b"dataset: 1\n\n"]
)
def test_what_is_no_notice_is_silence(silence: bytes) -> None:
    assert fed(silence) == 0


def test_100_notices_in_each_second_are_accepted_and_no_more(fake_clock: FakeClock) -> None:
    counter = NoticeCounter()
    for _ in range(5):
        assert counter.feed(b"data: {}\n\n" * 100) == 100
        fake_clock.advance(1)
    with pytest.raises(BusyStreamError):
        counter.feed(b"data: {}\n\n" * 101)
