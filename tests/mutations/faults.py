"""The seeded faults with a name: what each breaks, and in which function."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutations.edits import Edit, always, becomes, dropped, never, preceded, returning, without
from tests.mutations.fault import Fault


def faults(of: Mapping[str, Mapping[str, Edit]]) -> tuple[Fault, ...]:
    """:param of: for each function what can be broken in it, and the edit that does so."""
    return tuple(
        Fault(name, function, edit) for function, edits in of.items() for name, edit in edits.items()
    )


OF_DISPATCH = faults(
    {
        "Blame.lease_ended": {
            "make dead letters of messages while the target may be at fault": becomes(
                "dag_id in self.started", "True"
            ),
        },
        "Blame.drain_ended": {
            "blame the message although the target never took a run": becomes(
                "Fault.MESSAGE if is_at_fault else Fault.TARGET", "Fault.MESSAGE"
            ),
        },
        "Rejections._try_dead_letter": {
            "start a dead letter after the lease has ended": never("seconds_left"),
            "start a dead letter of a message that may have a run": never("may_have_run"),
        },
        "Rejections._start_dead_letter": {
            "acknowledge a message without its dead letter": always("start"),
            "do not acknowledge a dead letter": dropped("finish"),
        },
        "DeadLetters.start": {
            "acknowledge a dead letter that was not started": returning("True", after="_leave"),
        },
        "Dispatcher._start": {
            "do not look for the dead letter of a redelivered message": never("is_found"),
            "start a run of another DAG for a redelivered message": never("is_looked_up"),
            "acknowledge an unmatched message for the run of its key": without("REPEATED"),
            "acknowledge nothing before a message that may kill the process": dropped("_acknowledge"),
        },
        "Dispatcher._try": {
            "acknowledge a message whose run was rejected": returning("True", after="_refuse"),
            "acknowledge an unmatched message": returning("True", after="leave_unmatched"),
        },
        "Dispatcher._check": {
            "start runs of messages that do not fit the schema": dropped("limited"),
        },
        "Dispatcher._refuse": {
            "blame a message for the expression whose check is too slow": becomes(
                "next(_)", "Reason.EXPRESSION"
            ),
            "lease many messages after a target with a found run has rejected one": dropped("discard"),
        },
        "Rejections.is_undecided": {
            "start no dead letter of a message that kills the process": becomes(
                "delivery.count > LAST_SAFE_DELIVERY", "False"
            ),
        },
        "LeaseSize.next": {
            "lease as many messages as allowed at once": becomes("min(self._size, _)", "self.limit"),
            "lease as many messages as the try that was killed": becomes(
                "self.limit >> self.attempt - 1", "self.limit"
            ),
        },
        "LeaseSize.add_lease": {
            "lease many messages after a delivery that nothing explains": never("is_explained"),
        },
        "Dispatcher._acknowledge": {
            "drop the acknowledgement of started runs": dropped("acknowledge"),
            "never send a failed acknowledgement again": without("at_the_end"),
        },
        "Dispatcher._start_runs": {
            "acknowledge before the run is started": preceded(
                "_start", "self._finish_message(lease, delivery.id); self._acknowledge(self.hook)"
            ),
            "release the message that Airflow rejected": preceded(
                "end_lease", "lease.release(self.hook, lease.message_ids)"
            ),
            "start messages that have their run first while acknowledging fails": becomes(
                "self._find_run(_) is not None", "self._find_run(delivery) is None"
            ),
            "give up the messages on their last safe delivery without asking the target": without(
                "has_last_chance"
            ),
        },
        "HeldLease.release": {
            "forget to release the rest of a lease after an error": dropped("release_messages"),
        },
        "Dispatcher._work_on": {
            "lease the messages again that this drain left to their lease": becomes(
                "min(self._ends_at, lease.ends_at)", "self._ends_at"
            ),
        },
        "_Timer.is_over": {
            "let a check take any time": becomes("_ > MAX_CHECK_SECONDS", "False"),
        },
        "Routes.key": {
            "take a key with an empty part for a key": becomes("any(map(_is_empty, parts))", "False"),
            "give a whole float another key than its integer": becomes(
                "tolerant_json.with_whole_numbers(self._key(message))", "self._key(message)"
            ),
        },
        "MessageRuns.run_id": {
            "give each message with a business key a run of its own": becomes("key is None", "True"),
        },
        "probes_of": {
            "stop probing with the first rejection of every try": becomes("min(MAX_PROBES, _)", "1"),
        },
        "Dispatcher._lease_on": {
            "probe a broken target without end": never("probes_left"),
        },
        "Dispatcher.next_lease": {
            "lease more messages than Airflow can start": becomes("max(1, in_time)", "100"),
            "lease many messages for a target that was broken": becomes("min(count, 1)", "count"),
            "lease without regard to unfinished runs": becomes(
                "min(count, limits.max_unfinished_runs - _)", "count"
            ),
            "lease more than one message first": never("known"),
            "lease probes after a failed try for no longer than others": becomes(
                "limits.lease_seconds if is_first_try else PROBE_SECONDS", "limits.lease_seconds"
            ),
        },
        "Dispatcher._error_of_drain": {
            "swallow the error of a failed acknowledgement": without("_acknowledgement_error"),
        },
        "HeldLease.seconds_left": {
            "start runs up to the end of a lease": becomes("self.ends_at - MARGIN_SECONDS", "self.ends_at"),
            "start runs after the lease has expired": becomes(
                "self.ends_at - MARGIN_SECONDS", "self.ends_at + 300.0"
            ),
        },
        "HeldLease.of": {
            "count a lease from the answer instead of the request": becomes(
                'answer["sent_at"]', "clock.now()"
            ),
            "start new messages before those with a high delivery count": becomes("True", "False"),
        },
        "run_id_of": {
            "give messages of two inboxes one run id": becomes("digest[:16]", "16 * '0'"),
        },
        "TaskRuns.start": {
            "treat any error of Airflow as an existing run": never("DAGRUN_ALREADY_EXISTS"),
            "treat the answer that a run exists as an error": becomes(
                'refusal not in (None, "DAGRUN_ALREADY_EXISTS")', "refusal is not None"
            ),
        },
        "run_errors.error_of": {
            "treat a missing DAG as the fault of the message": becomes("status == 404", "False"),
        },
        "WorkflowInboxSensor._poll": {
            "dispatch a lease that ended before the task resumed": never("seconds_left"),
        },
        "HeldLease.acknowledge": {
            "release what was acknowledged": becomes(
                "hook.acknowledge_messages(...)", "hook.release_messages(self.inbox_id, self.lease_id, ids)"
            ),
        },
        "Blame.run_rejected": {
            "blame the message for each rejection": becomes(
                "self._undecided.setdefault(dag_id, []).append(refusal)", "self._at_fault.append(refusal)"
            ),
        },
        "Delivery.is_last_safe": {
            "start no dead letter while the target is at fault": becomes(
                "self.count >= LAST_SAFE_DELIVERY", "False"
            ),
        },
        "Dispatcher._record": {
            "take an existing run as proof that the target works": preceded(
                "counts.count", "self._rejections.blame.run_started(dag_id)"
            ),
        },
        "DeadLetterRules.is_due": {
            "start a dead letter on any delivery": becomes("delivery.known_count is None or _", "True"),
        },
        "Rejections.leave_unmatched": {
            "start dead letters of messages that no route takes, though left to their leases": without(
                "dead_letter"
            ),
        },
    }
)
"""In the code that the histories of ``tests/simulation`` play, which must notice them too."""
FAULTS = OF_DISPATCH + faults(
    {
        "clock.cpu_seconds": {
            "blame a message for the time in which its process was stopped": becomes(
                "time.thread_time()", "time.monotonic()"
            ),
        },
        "PayloadStore.with_reference": {
            "start the run of a payload that was not written": dropped("write"),
            "keep a payload in the conf beside its reference": becomes(
                '{**message, "payload": None, "payload_object": name, "payload_sha256": digest,'
                ' "payload_bytes": len(content)}',
                '{**message, "payload_object": name, "payload_sha256": digest}',
            ),
            "name the payload of each message of a key alike": becomes(
                '_hash_of_id(message["id"])', "_hash_of(inbox_id)"
            ),
        },
        "PayloadStore.text_at": {
            "take the content of a changed object": never("digest"),
        },
        "PayloadStore.read": {
            "read the object of another message": becomes("_hash_of_id(message_id)", 'match["message"]'),
        },
        "Dispatcher._check_targets": {
            "lease messages while the store cannot be written": dropped("check"),
        },
        "WorkflowInboxSensor._receive": {
            "lease messages to return while the store cannot be written": dropped("check"),
        },
        "limited": {
            "let the timer of a check run on": dropped("stop"),
        },
        "is_started_by_hand": {
            "take a run of a user for that of a message on Airflow 3.2": becomes(
                "str(run.note).startswith(NOTE_PREFIX)", "True"
            ),
        },
        "TaskRuns._existing": {
            "take any run with the id of a message for its run": becomes(
                "existing_start(...)", "Start.EXISTING"
            ),
        },
        "Receiver.take": {
            "acknowledge received messages before they are stored": preceded(
                "_store", "self._acknowledge(record)"
            ),
        },
        "Receiver._store": {
            "trust the task state store without reading it back": never("STORE_KEY"),
        },
        "Batch.is_stored": {
            "acknowledge an event that Airflow has not stored": becomes("self.outcome.is_clean", "True"),
            "acknowledge an event of which a watcher has recorded nothing": becomes(
                "len(self.selected) >= self.outcome.acked", "True"
            ),
            "acknowledge an event that Airflow has not taken": becomes(
                "watcher not in self.emitted", "False"
            ),
            "acknowledge an event whose watcher has left": becomes("watcher.has_ended", "False"),
        },
        "InboxProducer._settle": {
            "acknowledge an event before Airflow ends a watcher whose event it dropped": dropped(
                "async_sleep"
            ),
            "forget to release the messages of an event that Airflow has not stored": dropped("send"),
        },
        "BaseClient._wait_at_gate": {
            "send calls while the service allows none": never("_gates"),
        },
        "BaseClient._answered": {
            "keep a token that the service has refused": dropped("drop"),
        },
        "Waits.wait": {
            "poll an inbox as often as its stream sends wake-ups": becomes(
                "clock.async_sleep(min_seconds)", "clock.async_sleep(0)"
            ),
            "wait as long after a wake-up as before": dropped("reset"),
        },
        "BaseClient._gate_of": {
            "let the token endpoint of one connection delay that of another": never("TOKEN"),
        },
        "TaskLife.kill": {
            "fail a task that is ended while it holds no lease": always("holds_lease"),
        },
        "Delivery.of": {
            "look for no run of a message whose delivery count is unknown": becomes(
                "count == 1", "(count or 1) == 1"
            ),
        },
        "Batches._call": {
            "acknowledge a batch before the function is called": preceded(
                "_causes", "self._finished = [each.id for each in batch]; self._acknowledge(lease)"
            ),
        },
        "Batches._settle_failed": {
            "acknowledge a message that the function failed for": preceded(
                "add_failed", "self._finished.append(delivery.id); self._acknowledge(lease)"
            ),
            "make dead letters while the function may be broken for all messages": becomes(
                "error is None or _", "True"
            ),
        },
        "Batches._work_on": {
            "call the function after the lease has ended": without("seconds_left"),
        },
        "Batches._batches_of": {
            "call redelivered messages together": becomes(
                "[[delivery] for delivery in alone if _]", "[alone][: len(alone)]"
            ),
        },
        "Batches._drain": {
            "lease many messages after one that may kill the process": becomes(
                "unexplained.isdisjoint(...)", "True"
            ),
            "lease for minutes while the function is broken": becomes(
                "max(seconds, PROBE_SECONDS)", "seconds"
            ),
        },
        "Batches._check_that_nothing_is_leased": {
            "succeed while a killed try holds the messages": never("leased"),
            "hide what the function raised behind the leases of its messages": without("failed"),
        },
        "Batches._start_dead_letter": {
            "make a dead letter of a message of a batch after its lease has ended": without("seconds_left"),
        },
        "Batches._is_dead": {
            "call the function for a message on its last safe delivery": becomes("is_last and _", "False"),
        },
        "Batches._causes": {
            "release a message that ended its task, so that it is quarantined soon": never("LAST_CALL"),
        },
        "Replay.start": {
            "replay a dead letter although its target has the run": never("find"),
            "replay a message although another DAG has its run": becomes("search(self)", "()"),
            "start a run of a DAG that is not there": dropped("check_target"),
            "replay in another DAG without the permission for it": becomes(
                "{dag_id, target_dag_id}", "{target_dag_id}"
            ),
            "replay in another DAG without the permission for the target": becomes(
                "{dag_id, target_dag_id}", "{dag_id}"
            ),
        },
        "Replay.of": {
            "replay a run whose id is not that of its message": never("own_run_id"),
            "replay a dead letter under another run id": becomes(
                'conf.get("target_run_id")', "run_id_of(message_id, inbox_id)"
            ),
        },
        "polling.available_in": {
            "emit no notice for messages that a long list does not show": becomes("UNSEEN", "frozenset()"),
        },
        "dag_runs.not_started_by_hand": {
            "show what others started as dead letters and runs of messages": becomes(
                "or_(...)", "run.triggered_by.is_not(None)"
            ),
        },
        "dag_runs.pages": {
            "lose runs that started at the same moment between two pages": becomes(
                "tuple_(run.run_after, run.id)", "tuple_(run.run_after, 0)"
            ),
        },
        "dag_runs.runs_of": {
            "miss the run that a machine with a slow clock started": becomes("since - CLOCK_SKEW", "since"),
            "take the run of another inbox for that of a message": always("inbox_id"),
        },
        "doctor._database": {
            "print what the driver says of a database, which may quote its password": becomes(
                "type(error).__name__", "error"
            ),
            "count a database that cannot be read as a failure": becomes("SKIPPED", "FAILED"),
        },
        "doctor.doctor": {
            "end with success though a check was skipped": without("SKIPPED"),
        },
        "VariableStore._tokens_of": {
            "use tokens that another program has planted": always("compare_digest"),
        },
        "VariableStore._signature": {
            "use tokens that were copied from another connection": becomes("self._connection_id", "''"),
        },
        "dag_runs._rows": {
            "read a conf of any size for a list": becomes("case((~is_large, run.conf))", "run.conf"),
        },
        "inbox_uses.dead_letter_dags": {
            "take dead letters from the DAGs of another inbox's listener": becomes(
                "use.may_be_of(...)", "True"
            ),
        },
        "plugin.dead_letters._check_that_may_start": {
            "replay without the permission to start runs": never("may"),
        },
        "plugin.dead_letters._stored": {
            "replay a dead letter without the permission to read it": becomes(
                "reader.may('read runs', dag_id)", "True"
            ),
            "replay a dead letter of a DAG that no listener names": becomes(
                "dag_id in _dag_ids(...)", "True"
            ),
        },
        "page._acknowledged": {
            "list messages of runs that the user may not read": never("may"),
        },
        "access.PageUser.run": {
            "show runs that the user may not read": always("may"),
        },
        "listeners._last_run": {
            "show how runs ended that the user may not read": becomes(
                "reader.may('read runs', dag_id)", "True"
            ),
        },
        "listeners.listeners_of": {
            "show listeners of DAGs that the user may not read": becomes(
                "reader.may('read', use.dag_id)", "True"
            ),
        },
        "page._recent_runs": {
            "count runs that the user may not read": always("may"),
        },
        "text.for_page": {
            "show half a surrogate pair of the service": becomes(
                "cut.encode(errors='replace').decode()", "cut"
            ),
        },
        "service._size": {
            "keep answers of any size for the page": becomes("min(...)", "1"),
        },
        "text.quoted": {
            "let a message id end the code of a note": becomes(
                "escaped(text, longest).replace('`', _)", "escaped(text, longest)"
            ),
        },
    }
)


def fault(name: str) -> Fault:
    """The fault of this name."""
    return next(fault for fault in FAULTS if fault.name == name)
