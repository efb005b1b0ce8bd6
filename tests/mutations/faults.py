"""The seeded faults: what each breaks, where, and which unit tests must notice it."""

from __future__ import annotations

from dataclasses import dataclass

DISPATCH = ("tests/unit/test_dispatch*.py", "tests/unit/test_rejected.py")
TARGETS = ("tests/unit/test_probing.py", "tests/unit/test_dispatch_faults.py", "tests/unit/test_runs.py")
DEAD_LETTERS = ("tests/unit/test_dead_letters.py", "tests/unit/test_rejected.py")
LEASES = ("tests/unit/test_lease*.py", "tests/unit/test_leasing.py", "tests/unit/test_dispatch*.py")
RECEIVING = ("tests/unit/test_receive*.py", "tests/unit/sensors/test_receiving.py")
SENSOR = ("tests/unit/sensors",)
TRIGGER = ("tests/unit/triggers/test_inbox*.py",)
EVENTS = ("tests/unit/triggers/test_event*.py",)
CLIENT = ("tests/unit/client",)


@dataclass(frozen=True)
class Fault:
    """
    One change of the source.

    :param name: what the change breaks.
    :param file: below the package.
    :param old: the code to replace; it occurs once in the file.
    :param new: the faulty code.
    :param tests: patterns of the test files that must notice.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "make dead letters of messages while the target may be at fault",
        "dispatch/rejected.py",
        "            if rejection.dag_id in self.started:",
        "            if True:",
        DEAD_LETTERS,
    ),
    Fault(
        "start a dead letter after the lease has ended",
        "dispatch/rejected.py",
        "        if lease.seconds_left() <= 0:",
        "        if False:",
        DEAD_LETTERS,
    ),
    Fault(
        "acknowledge a dead letter that was not started",
        "dispatch/dead_letters.py",
        'not started: {error}")\n            return False',
        'not started: {error}")\n            return True',
        DEAD_LETTERS,
    ),
    Fault(
        "do not look for the dead letter of a redelivered message",
        "dispatch/dispatcher.py",
        "if self._dead_letters is not None and self._dead_letters.is_found(message, self.inbox_id):",
        "if False:",
        DEAD_LETTERS,
    ),
    Fault(
        "drop the acknowledgement of started runs",
        "dispatch/lease.py",
        "                acknowledge(hook, lease.inbox_id, lease_id, message_ids, self.inbox)",
        "                pass",
        DISPATCH,
    ),
    Fault(
        "acknowledge before the run is started",
        "dispatch/dispatcher.py",
        "                if self._start(due[0], lease):\n",
        '                self._acknowledgements.add(lease, due[0]["id"])\n'
        "                self._acknowledgements.send(self.hook)\n"
        "                if self._start(due[0], lease):\n",
        DISPATCH,
    ),
    Fault(
        "acknowledge a message whose run was rejected",
        "dispatch/dispatcher.py",
        "str(error)), error)\n            return False",
        "str(error)), error)\n            return True",
        DISPATCH,
    ),
    Fault(
        "acknowledge an unmatched message",
        "dispatch/dispatcher.py",
        "                self._rejected.leave_unmatched(message, lease)\n                return False",
        "                self._rejected.leave_unmatched(message, lease)\n                return True",
        DISPATCH,
    ),
    Fault(
        "forget to release the rest of a lease after an error",
        "dispatch/dispatcher.py",
        "        try_to_release(self.hook, lease.inbox_id, lease.lease_id, message_ids, self.inbox)",
        "        del message_ids",
        DISPATCH,
    ),
    Fault(
        "release the message that Airflow rejected",
        "dispatch/dispatcher.py",
        "            due.popleft()\n            self._give_last_chances(lease, due)",
        "            self._give_last_chances(lease, due)",
        DISPATCH,
    ),
    Fault(
        "lease the messages again that this drain left to their lease",
        "dispatch/dispatcher.py",
        "        in_time = clock.now() < min(self._ends_at, self._rejected.left_until)",
        "        in_time = clock.now() < self._ends_at",
        DISPATCH,
    ),
    Fault(
        "start a run of another DAG for a redelivered message",
        "dispatch/dispatcher.py",
        "            dag_with_run = self._dag_of_run(message) if self._looks_for_runs else None",
        "            dag_with_run = None",
        DISPATCH,
    ),
    Fault(
        "blame the message although the target never took a run",
        "dispatch/rejected.py",
        "                of_targets.append(rejection)\n                self.blame_target(rejection)",
        "                self.blame_message(rejection)",
        (*DISPATCH, *TARGETS),
    ),
    Fault(
        "stop probing with the first rejection of every try",
        "dispatch/targets.py",
        "    return int(min(MOST_PROBES, 2 ** min(attempt - 1, 10)))",
        "    return 1",
        TARGETS,
    ),
    Fault(
        "probe a broken target without end",
        "dispatch/dispatcher.py",
        "        probes_left = self._rejected.unproven < probes_of(self.attempt)",
        "        probes_left = True",
        TARGETS,
    ),
    Fault(
        "never send a failed acknowledgement again",
        "dispatch/lease.py",
        "        if self.error is not None and not at_the_end:",
        "        if self.error is not None:",
        DISPATCH,
    ),
    Fault(
        "swallow the error of a failed acknowledgement",
        "dispatch/dispatcher.py",
        "            failure = target_error or self._acknowledgements.error or failure",
        "            failure = target_error or failure",
        DISPATCH,
    ),
    Fault(
        "start messages that have their run first while acknowledging fails",
        "dispatch/dispatcher.py",
        "key=lambda message: self._dag_of_run(message) is not None",
        "key=lambda message: self._dag_of_run(message) is None",
        DISPATCH,
    ),
    Fault(
        "take any run with the id of a message for its run",
        "dispatch/runs.py",
        "        return names_same_message(run.conf, conf, by_user=run.triggering_user_name is not None)",
        "        return True",
        (*DEAD_LETTERS, "tests/unit/test_runs.py"),
    ),
    Fault(
        "give up the messages on their last safe delivery without asking the target",
        "dispatch/dispatcher.py",
        "                if self._start(message, lease):\n                    self._acknowledgements.add(",
        "                if False:\n                    self._acknowledgements.add(",
        DEAD_LETTERS,
    ),
    Fault(
        "start runs up to the end of a lease",
        "dispatch/lease.py",
        "        return self.ends_at - MARGIN_SECONDS - clock.now()",
        "        return self.ends_at - clock.now()",
        LEASES,
    ),
    Fault(
        "count a lease from the answer instead of the request",
        "dispatch/lease.py",
        '            ends_at=answer["sent_at"] + lease_seconds,',
        "            ends_at=clock.now() + lease_seconds,",
        LEASES,
    ),
    Fault(
        "start new messages before those with a high delivery count",
        "dispatch/lease.py",
        "        return sorted(self.messages, key=delivery_count, reverse=True)",
        "        return sorted(self.messages, key=delivery_count)",
        LEASES,
    ),
    Fault(
        "lose the messages that do not fit into the hand-off",
        "dispatch/lease.py",
        '                left.append(message["id"])',
        "                pass",
        (*LEASES, *TRIGGER),
    ),
    Fault(
        "acknowledge only the first hundred messages of a lease",
        "dispatch/lease.py",
        "    for some in slices(ids):\n        try:\n            answer = call(",
        "    for some in [ids[:100]]:\n        try:\n            answer = call(",
        LEASES,
    ),
    Fault(
        "give messages of two inboxes one run id",
        "dispatch/runs.py",
        '    run_id = f"{prefix}{message_id}__{digest[:16]}"',
        "    run_id = f\"{RUN_ID_PREFIX}{message_id}__{16 * '0'}\"",
        ("tests/unit/test_run_ids.py",),
    ),
    Fault(
        "treat any error of Airflow as an existing run",
        "dispatch/runs.py",
        '        if refusal not in (None, "DAGRUN_ALREADY_EXISTS"):',
        "        if False:",
        TARGETS,
    ),
    Fault(
        "treat a missing DAG as the fault of the message",
        "dispatch/rejections.py",
        "    if status == 404:",
        "    if status == 1404:",
        TARGETS,
    ),
    Fault(
        "lease many messages for a target that was broken",
        "dispatch/dispatcher.py",
        "        return max(0, min(count, 1)), PROBE_SECONDS",
        "        return max(0, count), PROBE_SECONDS",
        TARGETS,
    ),
    Fault(
        "lease without regard to unfinished runs",
        "dispatch/dispatcher.py",
        "            count = min(count, limits.max_unfinished_runs - unfinished)",
        "            pass",
        ("tests/unit/test_dispatch_capacity.py", "tests/unit/sensors/test_capacity.py"),
    ),
    Fault(
        "acknowledge received messages before they are stored",
        "dispatch/receiving.py",
        "            self._store(record)\n        self._acknowledge(record, NotFoundError)",
        "            self._acknowledge(record, NotFoundError)\n        self._store(record)",
        RECEIVING,
    ),
    Fault(
        "trust the task state store without reading it back",
        "dispatch/receiving.py",
        "        if store.get(STORE_KEY) != text:",
        "        if False:",
        RECEIVING,
    ),
    Fault(
        "lose a lease whose trigger is cancelled",
        "triggers/inbox.py",
        "            await carry_through(_release_when_leased(client, inbox_id, leasing))",
        "            pass",
        TRIGGER,
    ),
    Fault(
        "lose a lease whose event Airflow did not take",
        "triggers/inbox.py",
        "            await carry_through(_release(*unsent))",
        "            pass",
        TRIGGER,
    ),
    Fault(
        "dispatch a lease that ended before the task resumed",
        "sensors/work.py",
        "        if lease is not None and lease.seconds_left() <= 0:",
        "        if False:",
        SENSOR,
    ),
    Fault(
        "acknowledge an event before Airflow has stored it",
        "triggers/event_producer.py",
        "            await clock.async_sleep(max(0.0, job.due - clock.monotonic()))",
        "            pass",
        EVENTS,
    ),
    Fault(
        "acknowledge an event whose watcher has left",
        "triggers/event_producer.py",
        "        acknowledges = job.acknowledges and job.batch.watchers_remain()",
        "        acknowledges = job.acknowledges",
        EVENTS,
    ),
    Fault(
        "acknowledge events when the triggerer ends, stored or not",
        "triggers/event_producer.py",
        "    return job.batch.watchers_remain() and (job.due <= now or job.batch.is_proven())",
        "    return True",
        EVENTS,
    ),
    Fault(
        "forget the leases that are held when the triggerer ends",
        "triggers/event_producer.py",
        "leased, ids in self._held.rest()",
        "leased, ids in []",
        EVENTS,
    ),
    Fault(
        "send calls while the service allows none",
        "client/attempt.py",
        "    if gate.delay(urgent=call.urgent):",
        "    if False:",
        ("tests/unit/client/test_gates.py",),
    ),
    Fault(
        "keep a token that the service has refused",
        "client/attempt.py",
        "        parties.tokens.drop(",
        "        (lambda *_: None)(",
        ("tests/unit/client/test_token*.py", "tests/unit/client/test_api.py"),
    ),
)
