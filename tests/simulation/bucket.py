"""The user's object storage, in which payloads are: it is away at times, and loses what it has taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.dispatch.payload_store import PayloadStoreError, digest_of

if TYPE_CHECKING:
    from tests.simulation.world import World

AWAY = "store"
"""The fault of an episode in which nothing can be written."""
LOST = 0.05
"""Share of the objects that are lost although their write succeeded."""


@dataclass
class Bucket:
    """
    Takes the part of a ``PayloadStore``.

    :param objects: digest of each stored payload, by the name of its object.
    """

    world: World
    objects: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """See ``PayloadStore.check``."""
        self._write("check", "")
        self.world.process.knowledge.has_checked_store = True

    def with_reference(self, inbox_id: str, message: dict[str, Any]) -> dict[str, Any]:
        """See ``PayloadStore.with_reference``."""
        digest = digest_of(message["payload"])
        try:
            self._write(name := f"{inbox_id}/{message['id']}/{digest}", digest)
        except PayloadStoreError:
            for lease in self.world.process.knowledge.leases:
                if message["id"] in lease.counts:
                    lease.undecided.add(message["id"])
                    lease.attempted.add(message["id"])
            raise
        return {**message, "payload": None, "payload_object": name, "payload_sha256": digest}

    def _write(self, name: str, digest: str) -> None:
        world = self.world
        world.pause(world.latency())
        is_faulty = not world.is_quiet and world.random.random() < world.plan.store_faults
        if AWAY in world.away or is_faulty:
            world.note(world.process, f"write {name[-30:]}", "fails")
            world.process.knowledge.store_failed = world.process.knowledge.has_failed_write = True
            raise PayloadStoreError("made up")
        if world.random.random() >= LOST:
            self.objects[name] = digest
