"""The seeded faults with a name: what each breaks, and in which function."""

from __future__ import annotations

from tests.mutations.edits import always, becomes, dropped, guarded_by, never, preceded, returning, without
from tests.mutations.fault import Fault

OF_DISPATCH = (
    Fault(
        "make dead letters of messages while the target may be at fault",
        "Rejections.decide",
        always("started"),
    ),
    Fault(
        "start a dead letter after the lease has ended",
        "Rejections._try_dead_letter",
        never("seconds_left"),
    ),
    Fault(
        "acknowledge a dead letter that was not started",
        "DeadLetters.start",
        returning("True", after="reject"),
    ),
    Fault(
        "do not look for the dead letter of a redelivered message",
        "Dispatcher._start",
        never("is_found"),
    ),
    Fault(
        "drop the acknowledgement of started runs",
        "Dispatcher._acknowledge",
        dropped("acknowledge"),
    ),
    Fault(
        "acknowledge before the run is started",
        "Dispatcher._start_runs",
        guarded_by("_start", 'self._finish_message(lease, due[0]["id"]); self._acknowledge()'),
    ),
    Fault(
        "acknowledge a message whose run was rejected",
        "Dispatcher._start",
        returning("True", after="reject"),
    ),
    Fault(
        "acknowledge an unmatched message",
        "Dispatcher._start",
        returning("True", after="leave_unmatched"),
    ),
    Fault(
        "forget to release the rest of a lease after an error",
        "HeldLease.release",
        dropped("release_messages"),
    ),
    Fault(
        "release the message that Airflow rejected",
        "Dispatcher._start_runs",
        preceded("decide", "lease.release(self.hook, lease.message_ids)"),
    ),
    Fault(
        "lease the messages again that this drain left to their lease",
        "Dispatcher._work_on",
        becomes("min(self._ends_at, lease.ends_at)", "self._ends_at"),
    ),
    Fault(
        "start a run of another DAG for a redelivered message",
        "Dispatcher._start",
        never("existing"),
    ),
    Fault(
        "give each message with a business key a run of its own",
        "InboxRuns.run_id",
        becomes("key is None", "True"),
    ),
    Fault(
        "start runs of messages that do not fit the schema",
        "Dispatcher._start",
        dropped("check_payload"),
    ),
    Fault(
        "blame the message although the target never took a run",
        "Rejections.decide",
        becomes("self.blame_target(rejection)", "self.blame_message(rejection)"),
    ),
    Fault(
        "stop probing with the first rejection of every try",
        "probes_of",
        becomes("min(MOST_PROBES, _)", "1"),
    ),
    Fault(
        "probe a broken target without end",
        "Dispatcher._goes_on",
        without("probes_left"),
    ),
    Fault(
        "lease more messages than Airflow can start",
        "Dispatcher.next_lease",
        becomes("max(1, in_time)", "100"),
    ),
    Fault(
        "never send a failed acknowledgement again",
        "Dispatcher._acknowledge",
        without("at_the_end"),
    ),
    Fault(
        "swallow the error of a failed acknowledgement",
        "Dispatcher._drain",
        without("_acknowledgement_error"),
    ),
    Fault(
        "start messages that have their run first while acknowledging fails",
        "Dispatcher._start_runs",
        becomes("self._find_run(_) is not None", "self._find_run(message) is None"),
    ),
    Fault(
        "give up the messages on their last safe delivery without asking the target",
        "Dispatcher._may_start",
        without("has_last_chance"),
    ),
    Fault(
        "start runs up to the end of a lease",
        "HeldLease.seconds_left",
        becomes("self.ends_at - MARGIN_SECONDS", "self.ends_at"),
    ),
    Fault(
        "count a lease from the answer instead of the request",
        "HeldLease.of",
        becomes('answer["sent_at"]', "clock.now()"),
    ),
    Fault(
        "start new messages before those with a high delivery count",
        "HeldLease.of",
        becomes("True", "False"),
    ),
    Fault(
        "give messages of two inboxes one run id",
        "run_id_of",
        becomes("digest[:16]", "16 * '0'"),
    ),
    Fault(
        "treat any error of Airflow as an existing run",
        "TaskRuns._start",
        never("DAGRUN_ALREADY_EXISTS"),
    ),
    Fault(
        "treat a missing DAG as the fault of the message",
        "run_errors.error_of",
        becomes("status == 404", "False"),
    ),
    Fault(
        "lease many messages for a target that was broken",
        "Dispatcher.next_lease",
        becomes("min(count, 1)", "count"),
    ),
    Fault(
        "lease without regard to unfinished runs",
        "Dispatcher.next_lease",
        becomes("min(count, limits.max_unfinished_runs - _)", "count"),
    ),
    Fault(
        "dispatch a lease that ended before the task resumed",
        "WorkflowInboxSensor._poll",
        never("seconds_left"),
    ),
    Fault(
        "start runs after the lease has expired",
        "HeldLease.seconds_left",
        becomes("self.ends_at - MARGIN_SECONDS", "self.ends_at + 300.0"),
    ),
    Fault(
        "release what was acknowledged",
        "HeldLease.acknowledge",
        becomes("hook.acknowledge_messages(...)", "hook.release_messages(self.inbox_id, self.lease_id, ids)"),
    ),
    Fault(
        "treat the answer that a run exists as an error",
        "TaskRuns._start",
        becomes('refusal not in (None, "DAGRUN_ALREADY_EXISTS")', "refusal is not None"),
    ),
    Fault(
        "lease more than one message first",
        "Dispatcher.next_lease",
        always("_is_probing"),
    ),
    Fault(
        "lease probes after a failed try for no longer than others",
        "Dispatcher.next_lease",
        becomes("PROBE_SECONDS if self.attempt > 1 else _", "limits.lease_seconds"),
    ),
    Fault(
        "start a dead letter of a message that may have a run",
        "Rejections._try_dead_letter",
        never("may_have_run"),
    ),
    Fault(
        "blame the message for each rejection",
        "Rejections.reject",
        becomes("self._undecided.append(rejection)", "self.blame_message(rejection)"),
    ),
    Fault(
        "start no dead letter while the target is at fault",
        "is_on_last_safe_delivery",
        becomes("(delivery_count(message) or 1) >= LAST_SAFE_DELIVERY", "False"),
    ),
    Fault(
        "take an existing run as proof that the target works",
        "Dispatcher._record",
        preceded("counts.count", "self._rejections.start(dag_id)"),
    ),
    Fault(
        "start a dead letter on any delivery",
        "DeadLetters.is_due",
        becomes("count is None or _", "True"),
    ),
    Fault(
        "start dead letters of messages that no route takes, though they are left to their leases",
        "Rejections.leave_unmatched",
        without("dead_letter"),
    ),
    Fault(
        "do not acknowledge a dead letter",
        "Rejections._try_dead_letter",
        dropped("finish"),
    ),
)
"""In the code that the histories of ``tests/simulation`` play, which must notice them too."""
FAULTS = (
    *OF_DISPATCH,
    Fault(
        "take any run with the id of a message for its run",
        "TaskRuns._existing",
        becomes("existing_start(...)", "Start.EXISTING"),
    ),
    Fault(
        "lose the messages that do not fit into the hand-off",
        "HeldLease.hand_off",
        dropped("left_out.append"),
    ),
    Fault(
        "acknowledge received messages before they are stored",
        "Receiver.take",
        preceded("_store", "self._acknowledge(record)"),
    ),
    Fault(
        "trust the task state store without reading it back",
        "Receiver._store",
        never("STORE_KEY"),
    ),
    Fault(
        "acknowledge an event that Airflow has not stored",
        "Batch.is_stored",
        becomes("self.outcome.is_clean", "True"),
    ),
    Fault(
        "acknowledge an event of which a watcher has recorded nothing",
        "Batch.is_stored",
        becomes("len(self.selected) >= self.outcome.acked", "True"),
    ),
    Fault(
        "acknowledge an event that Airflow has not taken",
        "Batch.is_stored",
        becomes("watcher not in self.emitted", "False"),
    ),
    Fault(
        "acknowledge an event before Airflow ends a watcher whose event it dropped",
        "InboxProducer._settle",
        dropped("async_sleep"),
    ),
    Fault(
        "acknowledge an event whose watcher has left",
        "Batch.is_stored",
        becomes("watcher.has_ended", "False"),
    ),
    Fault(
        "forget to release the messages of an event that Airflow has not stored",
        "InboxProducer._settle",
        dropped("send"),
    ),
    Fault(
        "send calls while the service allows none",
        "BaseClient._wait_at_gate",
        never("delay"),
    ),
    Fault(
        "keep a token that the service has refused",
        "BaseClient._attempt",
        dropped("drop"),
    ),
    Fault(
        "poll an inbox as often as its stream sends wake-ups",
        "Waits.wait",
        becomes("clock.async_sleep(least)", "clock.async_sleep(0)"),
    ),
    Fault(
        "let the token endpoint of one connection delay that of another",
        "Gates._key",
        never("TOKEN"),
    ),
    Fault(
        "fail a task that is ended while it holds no lease",
        "WorkflowInboxDecoratedOperator.on_kill",
        always("working"),
    ),
    Fault(
        "look for no run of a message whose delivery count is unknown",
        "Dispatcher._find_run",
        becomes("delivery_count(message) == 1", "(delivery_count(message) or 1) == 1"),
    ),
    Fault(
        "acknowledge a batch before the function is called",
        "Batches._call",
        preceded("_causes", "self._finished = [each['id'] for each in batch]; self._acknowledge(lease)"),
    ),
    Fault(
        "acknowledge a message that the function failed for",
        "Batches._settle_failed",
        preceded("add_failed", "self._finished.append(message['id']); self._acknowledge(lease)"),
    ),
    Fault(
        "call the function after the lease has ended",
        "Batches._work_on",
        without("seconds_left"),
    ),
    Fault(
        "call redelivered messages together",
        "Batches._batches_of",
        becomes("[[message] for message in alone if _]", "[alone][: len(alone)]"),
    ),
    Fault(
        "lease many messages beside one that was redelivered",
        "Batches._drain",
        without("was_delivered"),
    ),
    Fault(
        "lease for minutes while the function is broken",
        "Batches._drain",
        becomes("max(seconds, PROBE_SECONDS)", "seconds"),
    ),
    Fault(
        "succeed while a killed try holds the messages",
        "Batches._check_that_nothing_is_leased",
        never("leased"),
    ),
    Fault(
        "make a dead letter of a message of a batch after its lease has ended",
        "Batches._start_dead_letter",
        without("seconds_left"),
    ),
    Fault(
        "make dead letters while the function may be broken for all messages",
        "Batches._settle_failed",
        becomes("error is None or _", "True"),
    ),
    Fault(
        "call the function for a message on its last safe delivery",
        "Batches._is_dead",
        becomes("is_on_last_safe_delivery(message)", "False"),
    ),
    Fault(
        "release a message that ended its task, so that it is quarantined soon",
        "Batches._causes",
        never("_is_last_call"),
    ),
    Fault(
        "replay a dead letter although its target has the run",
        "Replay.start",
        never("find"),
    ),
    Fault(
        "replay a dead letter under another run id",
        "Replay.of",
        becomes('conf.get("target_run_id")', "run_id_of(message_id, inbox_id)"),
    ),
    Fault(
        "emit no notice for messages that a long list does not show",
        "WorkflowInboxNoticeTrigger._available",
        becomes("UNSEEN", "frozenset()"),
    ),
    Fault(
        "wait as long after a wake-up as before",
        "Waits.wait",
        dropped("reset"),
    ),
    Fault(
        "show what others started as dead letters and runs of messages",
        "dag_runs.started_by_provider",
        becomes("or_(...)", "run.triggered_by.is_not(None)"),
    ),
    Fault(
        "lose runs that started at the same moment between two pages",
        "dag_runs.pages",
        becomes("tuple_(run.run_after, run.id)", "tuple_(run.run_after, 0)"),
    ),
    Fault(
        "miss the run that a machine with a slow clock started",
        "dag_runs.runs_of",
        becomes("since - CLOCK_SKEW", "since"),
    ),
    Fault(
        "take the run of another inbox for that of a message",
        "dag_runs.runs_of",
        always("inbox_id"),
    ),
    Fault(
        "show half a surrogate pair of the service",
        "service.text",
        becomes("cut.encode(errors='replace').decode()", "cut"),
    ),
    Fault(
        "keep answers of any size for the page",
        "service._size",
        becomes("min(...)", "1"),
    ),
    Fault(
        "let a message id end the code of a note",
        "runs.quoted",
        becomes("plain(text, longest).replace('`', _)", "plain(text, longest)"),
    ),
)


def fault(name: str) -> Fault:
    """The fault of this name."""
    return next(fault for fault in FAULTS if fault.name == name)
