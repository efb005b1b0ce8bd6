"""The emulator against a model of its inbox: whatever is done to both, both say the same."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, ClassVar

import requests
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.records import MessageId
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fuzz.budget import tries

LAST_LEASE = 5
"""Leases that a message may end without acknowledgement (docs/service.md 3.2, assumed)."""


@dataclass(eq=False)
class Delivery:
    """One delivery of a message."""

    id: Any
    payload: Any
    status: str = "available"
    leases: int = 0


@dataclass
class Lease:
    """What was handed out together, and has not been given back or acknowledged since."""

    until: float
    held: list[Delivery]
    over: bool = False


@dataclass
class Model:
    """
    An inbox as docs/service.md 2, 3 and 4 describe it, in as few lines as possible.

    It shares nothing with the emulator, keeps no queue and no deadlines, and looks at everything each time.
    """

    now: float
    status: str = "active"
    paused_reason: str | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    acknowledged: int = 0
    arrived: set[Any] = field(default_factory=set)

    def put(self, messages: list[tuple[Any, Any]]) -> int:
        """Messages that arrive; an inbox that is not active drops them."""
        if self.status != "active":
            return 0
        self.arrived |= {each[0] for each in messages}
        self.deliveries += [Delivery(*each) for each in messages]
        return len(messages)

    def may_lease(self, limit: int) -> tuple[int, list[Delivery]]:
        """The status that a lease is answered with, and what it hands out: the oldest first."""
        open_to = self.status in ("active", "paused")
        free = [each for each in self.deliveries if each.status == "available"][:limit] if open_to else []
        if free:
            return 201, free
        waiting = [each for each in self.deliveries if each.status != "quarantined"]
        return (409 if self.status == "paused" and not waiting else 200), []

    def lease(self, lease_id: str, seconds: float, taken: list[Delivery]) -> None:
        for each in taken:
            each.status = "leased"
            each.leases += 1
        self.leases[lease_id] = Lease(self.now + seconds, list(taken))

    def may_name(self, ids: list[Any] | None) -> bool:
        """Whether a request may name these messages: by UUIDs, or by ids that were put here."""
        return all(each in self.arrived or re.fullmatch(r"[0-9a-f-]{36}", str(each)) for each in ids or ())

    def may_end(self, lease_id: str, ids: list[Any] | None) -> tuple[int, list[Delivery]]:
        """The status that an acknowledgement or a release is answered with, and what it is about."""
        if not self.may_name(ids):
            return 400, []
        lease = self.leases.get(lease_id)
        if lease is None:
            return 200, []
        if lease.over:
            return 400, []
        chosen = [each for each in lease.held if ids is None or each.id in ids]
        return (201 if chosen else 200), chosen

    def acknowledge(self, lease_id: str, chosen: list[Delivery]) -> None:
        self._take(lease_id, chosen)
        self.deliveries = [each for each in self.deliveries if each not in chosen]
        self.acknowledged += len(chosen)

    def release(self, lease_id: str, chosen: list[Delivery]) -> None:
        self._take(lease_id, chosen)
        _come_back(chosen)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.expire([each for each in self.leases.values() if each.until <= self.now])

    def expire(self, leases: list[Lease]) -> None:
        for lease in leases:
            lease.over = True
            _come_back(lease.held)
            lease.held = []

    def _take(self, lease_id: str, chosen: list[Delivery]) -> None:
        lease = self.leases[lease_id]
        lease.held = [each for each in lease.held if each not in chosen]
        if not lease.held:
            # Nothing is left of it: from now on it is a lease that nobody knows.
            del self.leases[lease_id]


def _come_back(deliveries: list[Delivery]) -> None:
    for each in deliveries:
        each.status = "quarantined" if each.leases >= LAST_LEASE else "available"


PAGE = 3
ROUTES = {
    "lease": ("POST", "/messages/lease"),
    "ack": ("POST", "/messages/ack"),
    "release": ("POST", "/messages/release"),
    "pause": ("POST", "/pause"),
    "resume": ("POST", "/resume"),
    "delete": ("DELETE", ""),
}
SECONDS = st.sampled_from((60, 300))
IDS = st.sampled_from((*(str(uuid.UUID(int=number)) for number in range(1, 5)), "\xe9 /?", 17))
PAYLOADS = st.none() | st.integers(0, 9) | st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2)
PAUSES = st.sampled_from(("user", "authentication", "upstream_failures", "unheard_of"))


class InboxRules(RuleBasedStateMachine):
    """
    What a consumer, the subscription and the service's own moods do to an inbox.

    The consumer uses an HTTP client that shares nothing with the package's own.
    """

    server: ClassVar[EmulatorServer]
    session: ClassVar[requests.Session]

    @initialize()
    def begin(self) -> None:
        self.server.reset()
        self.server.store.configure(page_size=PAGE)
        self.messages, self.inboxes = self.server.store.messages, self.server.store.inboxes
        self.gone: list[str] = []
        self.open()

    def open(self) -> None:
        self.inbox_id = self.server.open_inbox("orders")
        self.model = Model(self.server.store.clock.now())
        self.known: list[str] = []
        self.twice = 0

    def ask(self, operation: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
        method, path = ROUTES[operation]
        answer = self.request(method, f"/trigger-inbox/v1/inboxes/{self.inbox_id}{path}", json=arguments)
        return answer.status_code, answer.json()

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        # An app token lasts 10 hours of the emulator's clock, which goes further than that.
        headers = {"Authorization": f"Bearer {self.server.token()}"}
        return self.session.request(
            method, self.server.base_url + path, headers=headers, timeout=10, **options
        )

    # The subscription

    @rule(messages=st.lists(st.tuples(IDS, PAYLOADS), min_size=1, max_size=4))
    def messages_arrive(self, messages: list[tuple[MessageId, Any]]) -> None:
        ids, payloads = [each[0] for each in messages], [each[1] for each in messages]
        put = self.messages.put(self.inbox_id, payloads, ids=ids)
        arrived = self.model.put(messages)
        assert len(put) == arrived

    @rule(message_id=IDS, count=st.sampled_from((LAST_LEASE - 2, LAST_LEASE - 1)))
    def a_message_has_been_leased_before(self, message_id: MessageId, count: int) -> None:
        free = [each for each in self.model.deliveries if each.id == message_id]
        if free and all(each.status == "available" for each in free):
            self.messages.set_attributes(self.inbox_id, message_id, {"lease_count": count})
            for each in free:
                each.leases = count

    # A consumer

    @rule(seconds=SECONDS, limit=st.integers(1, 5))
    def it_leases(self, seconds: int, limit: int) -> None:
        due, taken = self.model.may_lease(limit)
        status, body = self.ask("lease", lease_seconds=seconds, lease_limit=limit)
        assert status == due
        attributes = body["inbox_attributes"]
        assert (attributes["status"], attributes["paused_reason"]) == (
            self.model.status,
            self.model.paused_reason,
        )
        if status == 409:
            return
        assert [(each["id"], each["payload"]) for each in body["results"]] == [
            (d.id, d.payload) for d in taken
        ]
        assert (body["lease_id"] is not None) == bool(taken)
        if taken:
            self.model.lease(body["lease_id"], seconds, taken)
            self.known.append(body["lease_id"])
        assert [counted(each) for each in body["results"]] == [("leased", d.leases) for d in taken]

    @rule(data=st.data(), ids=st.none() | st.lists(IDS, min_size=1, max_size=3))
    def it_acknowledges(self, data: st.DataObject, ids: list[MessageId] | None) -> None:
        self.end("ack", self.some_lease(data), ids)

    @rule(data=st.data(), ids=st.none() | st.lists(IDS, min_size=1, max_size=3))
    def it_releases(self, data: st.DataObject, ids: list[MessageId] | None) -> None:
        self.end("release", self.some_lease(data), ids)

    @rule(seconds=SECONDS, operation=st.sampled_from(("ack", "release")))
    def it_ends_a_lease_and_repeats_itself_when_that_is_over(self, seconds: int, operation: str) -> None:
        before = len(self.known)
        self.it_leases(seconds, 2)
        if len(self.known) > before:
            for _ in range(2):
                self.end(operation, self.known[-1], None)
                self.time_passes(seconds)
            self.end(operation, self.known[-1], None)

    # Time, and the service

    @rule(seconds=st.sampled_from((0.5, 59.5, 60, 240, 300)))
    def time_passes(self, seconds: float) -> None:
        self.server.store.clock.advance(seconds)
        self.model.advance(seconds)

    @rule(
        what=st.sampled_from(("end", "twice", "pause", "pause itself", "resume", "resume", "fail", "delete")),
        reason=PAUSES,
    )
    def something_rare_happens(self, what: str, reason: str) -> None:
        # One rule for all of these: on most steps something is leased, or ends.
        rare = {
            "end": self.all_leases_end,
            "twice": self.what_is_leased_comes_twice,
            "pause": self.it_is_paused,
            "pause itself": lambda: self.the_service_pauses_it(reason),
            "resume": self.it_is_resumed,
            "fail": self.it_is_out_of_order_for_a_while,
            "delete": self.it_is_deleted_and_created_again,
        }
        rare[what]()

    def all_leases_end(self) -> None:
        held = [each for each in self.model.leases.values() if each.held]
        assert self.messages.expire(self.inbox_id) == len(held)
        self.model.expire(held)

    def what_is_leased_comes_twice(self) -> None:
        for lease_id, lease in self.model.leases.items():
            if lease.held:
                self.messages.deliver_again(self.inbox_id, lease_id)
                self.model.deliveries += [Delivery(d.id, d.payload, leases=d.leases) for d in lease.held]
                self.twice += len(lease.held)

    def it_is_paused(self) -> None:
        status, _ = self.ask("pause")
        assert status == (200 if self.model.status == "active" else 409)
        if status == 200:
            self.model.status, self.model.paused_reason = "paused", "user"

    def the_service_pauses_it(self, reason: str) -> None:
        self.inboxes.force(self.inbox_id, "paused", reason)
        self.model.status, self.model.paused_reason = "paused", reason

    def it_is_resumed(self) -> None:
        status, _ = self.ask("resume")
        assert status == (200 if self.model.status == "paused" else 409)
        if status == 200:
            self.model.status, self.model.paused_reason = "active", None

    def it_is_out_of_order_for_a_while(self) -> None:
        for status in ("initializing", "initialization_failure"):
            self.inboxes.force(self.inbox_id, status)
            due, _ = Model(0, status, deliveries=self.model.deliveries).may_lease(5)
            assert self.ask("lease", lease_seconds=60, lease_limit=5)[0] == due
        self.inboxes.force(self.inbox_id, self.model.status, self.model.paused_reason)

    def it_is_deleted_and_created_again(self) -> None:
        status, _ = self.ask("delete")
        assert status in (200, 202)
        for operation in ("lease", "pause", "resume", "delete"):
            assert self.ask(operation)[0] == 404
        assert self.ask("ack", lease_id="x")[0] == 404
        self.gone += self.known
        self.open()

    # What holds at any time

    @invariant()
    def both_list_the_same(self) -> None:
        if hasattr(self, "model"):
            listed, cursor = self.messages.page(self.inbox_id, PAGE)
            while cursor:
                more, cursor = self.messages.page(self.inbox_id, PAGE, cursor)
                listed += more
            found = [(each["id"], *counted(each)) for each in listed]
            assert found == [(each.id, each.status, each.leases) for each in self.model.deliveries]
            assert not any("payload" in each for each in listed)

    @invariant()
    def no_message_is_lost(self) -> None:
        if hasattr(self, "model"):
            counters = self.inboxes.get(self.inbox_id).counters
            assert counters["acks"] == self.model.acknowledged
            assert counters["put"] + self.twice == self.model.acknowledged + len(self.model.deliveries)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            path, listed = f"/trigger-inbox/v1/inboxes/{self.inbox_id}/messages", []
            while path:
                page = self.request("GET", path).json()
                listed += page["results"]
                path = (page["next"] or "").removeprefix(self.server.base_url)
            assert [each["id"] for each in listed] == [each.id for each in self.model.deliveries]

    def some_lease(self, data: st.DataObject) -> str:
        """One that is known, more often than not; or one of an inbox before this; or none at all."""
        candidates = [*self.known[-3:], (self.gone or [str(uuid.UUID(int=0))])[-1]]
        return str(data.draw(st.sampled_from(candidates)))

    def end(self, operation: str, lease_id: str, ids: list[MessageId] | None) -> None:
        """Acknowledge, or release."""
        due, chosen = self.model.may_end(lease_id, ids)
        left_out = {} if ids is None else {"message_ids": ids}
        status, body = self.ask(operation, lease_id=lease_id, **left_out)
        assert status == due
        if status == 400:
            code = "lease_expired" if self.model.may_name(ids) else "invalid"
            assert body["errors"][0]["code"] == code
            return
        receipt = body["acked_id" if operation == "ack" else "released_id"]
        assert (receipt is not None) == bool(chosen)
        assert [each["id"] for each in body["results"]] == [each.id for each in chosen]
        if chosen:
            (self.model.acknowledge if operation == "ack" else self.model.release)(lease_id, chosen)


def counted(message: dict[str, Any]) -> tuple[str, int]:
    return message["status"], message["message_attributes"]["lease_count"]


def test_the_rules_agree_with_the_model_over_http() -> None:
    with EmulatorServer(clock=ManualClock()) as server, requests.Session() as session:
        session.trust_env = False
        InboxRules.server, InboxRules.session = server, session
        run_state_machine_as_test(InboxRules, settings=tries(40, steps=50, cost=10))
