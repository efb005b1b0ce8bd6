"""Whose fault rejections are, in any order of rejections and runs of two targets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.dispatch.blame import MAX_REJECTIONS_IN_A_ROW, Blame, Fault, Reason, Refusal
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.lease import HeldLease

LEASE = HeldLease("inbox", "lease", 1000.0, "", [])
START, END_OF_LEASE = "start", "end of a lease"
STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([START, END_OF_LEASE, 1, 2, 3, 4, None])), max_size=60
)
"""For one of two targets: a run that is started, the end of a lease, or a rejection on this delivery."""


def refusal_of(number: int, dag_id: str, count: int | None) -> Refusal:
    attributes = {} if count is None else {"lease_count": count}
    delivery = Delivery.of("inbox", {"id": str(number), "message_attributes": attributes})
    return Refusal(delivery, LEASE, dag_id, "no", Reason.REJECTED)


@given(steps=STEPS)
def test_each_rejection_is_decided_once_and_never_against_a_message_that_no_run_speaks_against(
    steps: list[tuple[str, object]],
) -> None:
    blame, decisions, refusals, dag_ids_with_run = Blame(), [], [], set()
    for number, (dag_id, step) in enumerate(steps):
        if step == START:
            blame.run_started(dag_id)
            dag_ids_with_run.add(dag_id)
        elif step == END_OF_LEASE:
            decisions += blame.lease_ended()
        else:
            refusals.append(refusal_of(number, dag_id, step))  # type: ignore[arg-type]
            decisions += blame.run_rejected(refusals[-1])
            blame.broken_target(refusals[-1])
    decisions += blame.drain_ended()

    assert Counter(refusal.delivery.id for refusal, _ in decisions) == Counter(
        refusal.delivery.id for refusal in refusals
    )
    assert {refusal.dag_id for refusal, fault in decisions if fault is Fault.MESSAGE} <= dag_ids_with_run
    assert blame.drain_ended() == []


@pytest.mark.parametrize("order", ["a run after it", "a run before it"])
def test_a_run_of_the_target_beside_a_rejection_shows_that_the_message_is_at_fault(order: str) -> None:
    blame, refusal = Blame(), refusal_of(1, "a", 1)
    if order == "a run before it":
        blame.run_started("a")
    assert blame.run_rejected(refusal) == []
    if order == "a run after it":
        blame.run_started("a")
        assert blame.lease_ended() == [(refusal, Fault.MESSAGE)]

    assert blame.drain_ended() == ([] if order == "a run after it" else [(refusal, Fault.MESSAGE)])


def test_so_many_new_messages_in_a_row_are_the_fault_of_their_target_again() -> None:
    blame = Blame()
    blame.run_started("a")
    refusals = [refusal_of(number, "a", 1) for number in range(MAX_REJECTIONS_IN_A_ROW)]
    for refusal in refusals[:-1]:
        assert blame.run_rejected(refusal) == []
        assert blame.broken_target(refusal) is None
    blame.run_rejected(refusals[-1])

    assert "20 new messages were rejected in a row for the DAG 'a'" in str(blame.broken_target(refusals[-1]))
    assert blame.drain_ended() == [(refusal, Fault.TARGET) for refusal in refusals]


def test_a_message_whose_next_delivery_is_too_late_is_decided_at_the_end_of_its_lease() -> None:
    blame = Blame()
    blame.run_started("a")
    early, last = refusal_of(1, "a", 3), refusal_of(2, "a", 4)
    blame.run_rejected(early)
    blame.run_rejected(last)

    assert blame.lease_ended() == [(last, Fault.MESSAGE)]
    assert blame.drain_ended() == [(early, Fault.MESSAGE)]
