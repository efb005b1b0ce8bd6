"""The emulator against a model of its inbox: whatever is done to both, both say the same."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import requests
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.records import MessageId
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fuzz.budget import tries

LAST_LEASE = 2
"""Leases that a message may end here without acknowledgement."""
PAGE = 3
SECONDS = st.sampled_from((60, 300))
IDS = st.sampled_from((*(str(uuid.UUID(int=number)) for number in range(1, 5)), "\xe9 /?", 17))
PAYLOADS = st.none() | st.integers(0, 9) | st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2)


@dataclass(eq=False)
class Delivery:
    """One delivery of a message."""

    id: Any
    payload: Any
    status: str = "available"
    leases: int = 0
    lease_id: str | None = None

    def come_back(self) -> None:
        self.status = "quarantined" if self.leases >= LAST_LEASE else "available"
        self.lease_id = None


class InboxRules(RuleBasedStateMachine):
    """
    What a consumer, the subscription and the service's own moods do to an inbox (docs/service.md 2, 3, 4).

    The model shares nothing with the emulator, and its consumer nothing with the client of the package.
    """

    server: ClassVar[EmulatorServer]
    session: ClassVar[requests.Session]

    @initialize()
    def begin(self) -> None:
        self.server.reset()
        self.server.store.configure(page_size=PAGE, quarantine_after=LAST_LEASE)
        self.messages, self.inboxes = self.server.store.messages, self.server.store.inboxes
        self.inbox_id = self.server.open_inbox("orders")
        self.is_paused = False
        self.deliveries: list[Delivery] = []
        self.ends: dict[str, float] = {}
        """When each lease ends; those that have ended as well."""
        self.arrived: set[Any] = set()
        self.acknowledged = 0

    def ask(self, method: str, path: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
        # An app token lasts 10 hours of the emulator's clock, which goes further than that.
        headers = {"Authorization": f"Bearer {self.server.token()}"}
        url = f"{self.server.base_url}/trigger-inbox/v1/inboxes/{self.inbox_id}/messages{path}"
        answer = self.session.request(method, url, headers=headers, timeout=10, json=arguments or None)
        return answer.status_code, answer.json()

    @rule(messages=st.lists(st.tuples(IDS, PAYLOADS), min_size=1, max_size=4))
    def messages_arrive(self, messages: list[tuple[MessageId, Any]]) -> None:
        ids, payloads = [message[0] for message in messages], [message[1] for message in messages]
        new_ids = self.messages.put(self.inbox_id, payloads, ids=ids)
        assert new_ids == ([] if self.is_paused else ids)
        self.arrived.update(new_ids)
        self.deliveries += [Delivery(*message) for message in messages if not self.is_paused]

    @rule(seconds=SECONDS, limit=st.integers(1, 5))
    def it_leases(self, seconds: int, limit: int) -> None:
        new_lease = [delivery for delivery in self.deliveries if delivery.status == "available"][:limit]
        is_drained = all(delivery.status == "quarantined" for delivery in self.deliveries)
        status, body = self.ask("POST", "/lease", lease_seconds=seconds, lease_limit=limit)
        assert status == (201 if new_lease else 409 if self.is_paused and is_drained else 200)
        assert body["inbox_attributes"]["status"] == ("paused" if self.is_paused else "active")
        if status == 409:
            return
        for delivery in new_lease:
            delivery.status, delivery.lease_id, delivery.leases = (
                "leased",
                body["lease_id"],
                delivery.leases + 1,
            )
        if new_lease:
            self.ends[body["lease_id"]] = self.server.store.clock.now() + seconds
        assert [
            (result["id"], result["payload"], *status_and_count(result)) for result in body["results"]
        ] == [(delivery.id, delivery.payload, "leased", delivery.leases) for delivery in new_lease]

    @rule(
        operation=st.sampled_from(("ack", "release")),
        number=st.sampled_from((-1, -1, -2, -3)),
        ids=st.none() | st.none() | st.lists(IDS, min_size=1, max_size=3),
    )
    def it_ends(self, operation: str, number: int, ids: list[MessageId] | None) -> None:
        """A lease that it has, has had, or never had."""
        lease_id = [str(uuid.UUID(int=0)), *self.ends][max(number, -1 - len(self.ends))]
        may_name = all(id_ in self.arrived or "-" in str(id_) for id_ in ids or ())
        of_lease = [delivery for delivery in self.deliveries if delivery.lease_id == lease_id]
        is_over = not of_lease and self.ends.get(lease_id, 0) < 0
        deliveries = [delivery for delivery in of_lease if ids is None or delivery.id in ids]
        left_out = {} if ids is None else {"message_ids": ids}
        status, body = self.ask("POST", f"/{operation}", lease_id=lease_id, **left_out)
        if is_over or not may_name:
            assert status == 400
            assert body["errors"][0]["code"] == ("lease_expired" if may_name else "invalid")
            return
        assert status == (201 if deliveries else 200)
        assert (body["acked_id" if operation == "ack" else "released_id"] is not None) == bool(deliveries)
        assert [delivery["id"] for delivery in body["results"]] == [delivery.id for delivery in deliveries]
        if operation == "ack":
            self.acknowledged += len(deliveries)
            self.deliveries = [delivery for delivery in self.deliveries if delivery not in deliveries]
        for delivery in deliveries:
            delivery.come_back()

    @rule(seconds=st.sampled_from((0.5, 59.5, 60, 240, 300)))
    def time_passes(self, seconds: float) -> None:
        self.server.store.clock.advance(seconds)
        self.leases_end([key for key, end in self.ends.items() if 0 < end <= self.server.store.clock.now()])

    @rule(event=st.sampled_from(("end", "pause", "resume", "resume")))
    def something_rare_happens(self, event: str) -> None:
        leased_deliveries = [delivery for delivery in self.deliveries if delivery.status == "leased"]
        lease_ids = list(dict.fromkeys(str(delivery.lease_id) for delivery in leased_deliveries))
        if event == "end":
            assert self.messages.expire(self.inbox_id) == len(lease_ids)
            self.leases_end(lease_ids)
        else:
            self.is_paused = event == "pause"
            self.inboxes.force(self.inbox_id, "paused" if self.is_paused else "active", "user")
            # All that is available, and then nothing.
            for _ in range(2):
                self.it_leases(60, 100)

    def leases_end(self, lease_ids: list[str]) -> None:
        """Leases that still hold messages are over; one that has none is a lease that nobody knows."""
        for delivery in self.deliveries:
            if delivery.lease_id in lease_ids:
                self.ends[delivery.lease_id] = -1
                delivery.come_back()

    @invariant()
    def both_list_the_same_and_no_message_is_lost(self) -> None:
        if not hasattr(self, "deliveries"):
            return
        rows, cursor = self.messages.page(self.inbox_id, PAGE)
        while cursor:
            more, cursor = self.messages.page(self.inbox_id, PAGE, cursor)
            rows += more
        assert [(row["id"], *status_and_count(row)) for row in rows] == [
            (delivery.id, delivery.status, delivery.leases) for delivery in self.deliveries
        ]
        assert not any("payload" in row for row in rows)
        counters = self.inboxes.get(self.inbox_id).counters
        assert counters["acks"] == self.acknowledged
        assert counters["put"] == self.acknowledged + len(self.deliveries)

    def teardown(self) -> None:
        if hasattr(self, "deliveries"):
            path, inboxes = "", []
            while path is not None:
                page = self.ask("GET", path)[1]
                inboxes += page["results"]
                path = page["next"] and page["next"].partition("/messages")[2]
            assert [inbox["id"] for inbox in inboxes] == [inbox.id for inbox in self.deliveries]


def status_and_count(message: dict[str, Any]) -> tuple[str, int]:
    return message["status"], message["message_attributes"]["lease_count"]


@pytest.mark.specification("4.4 messages")
def test_the_rules_agree_with_the_model_over_http() -> None:
    with EmulatorServer(clock=ManualClock()) as server, requests.Session() as session:
        session.trust_env = False
        InboxRules.server, InboxRules.session = server, session
        run_state_machine_as_test(InboxRules, settings=tries(40, steps=50, cost=10))
