"""One server for each file of the matrix: the cells use it one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.client.matrix.cells import Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as server:
        yield server
