"""The short form of ``make soak``: a minute is enough to count sessions, sockets and open files."""

from __future__ import annotations

import pytest


@pytest.mark.nightly
def test_no_count_grows_while_messages_come_and_tokens_are_renewed(make_alone):
    said = make_alone("soak", "MINUTES=1.25", "RATE=2", seconds=600)

    assert "Nothing grows." in said
    assert "Every message had its one run." in said
