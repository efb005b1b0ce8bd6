"""How leases grow, and when they shrink."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch.lease_size import LeaseSize


def sizes(size: LeaseSize, leases: int) -> list[int]:
    """The sizes of leases that bring as many messages as they can have, all of which are decided about."""
    limits = []
    for _ in range(leases):
        limits.append(size.next)
        size.add_lease(limits[-1], limits[-1], is_explained=True)
    return limits


def test_leases_grow_from_one_message_to_the_limit() -> None:
    assert sizes(LeaseSize(100), 8) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert sizes(LeaseSize(3), 3) == [1, 2, 3]


@pytest.mark.parametrize(("attempt", "largest"), [(1, 100), (2, 50), (3, 25), (6, 3), (7, 1), (1_000, 1)])
def test_each_failed_try_halves_the_largest_lease(attempt: int, largest: int) -> None:
    assert max(sizes(LeaseSize(100, attempt), 8)) == largest


def test_the_next_lease_is_at_most_twice_as_large_as_what_was_decided() -> None:
    size = LeaseSize(100)
    sizes(size, 5)
    size.add_lease(64, 5, is_explained=True)
    assert size.next == 10
    size.add_lease(10, 0, is_explained=True)
    assert size.next == 1


def test_a_lease_that_capacity_kept_small_leaves_the_size_as_it_was() -> None:
    size = LeaseSize(100)
    sizes(size, 4)
    size.add_lease(3, 3, is_explained=True)
    assert size.next == 16


def test_after_a_delivery_that_nothing_explains_leases_begin_with_one_message_again() -> None:
    size = LeaseSize(100)
    sizes(size, 5)
    size.add_lease(64, 64, is_explained=False)
    assert sizes(size, 3) == [1, 2, 4]
