"""
A source in trouble: what is wrong with an inbox, and when that is an alarm.

A watcher, a sensor and a dispatch operator each take *readings* of their inbox: a problem, or that the inbox
is sound. A problem starts a trouble, which lasts until the inbox was sound for an hour. A problem that is
seen in a trouble for 60 s or longer is an alarm, and then again after 6 hours. So a short interruption is no
alarm, an inbox that changes between sound and not is one, and neither causes an alarm each time.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import clock, moments, types

MIN_APART_SECONDS = 60.0
"""Seconds between the first reading and one that makes an alarm: an inbox may be created again."""
MIN_APART_AWAY_SECONDS = 180.0
"""The same for an error that Airflow also raises while its API is away."""
MIN_APART_STORE_SECONDS = 300.0
"""The same for a payload store that cannot be written."""
NO_STORE = "no_store"
"""The kind of a problem: payloads cannot be written, so nothing is leased."""
ALARM_AGAIN_SECONDS = 6 * 3600.0
"""Seconds between two alarms of one trouble."""
SOUND_SECONDS = 3600.0
"""A trouble is over when its inbox was sound for this long."""
READING_SECONDS = (20.0, 55.0)
"""Limits of the random interval between two readings: a fixed one could always meet an inbox that pauses and
resumes in the same rhythm in the same state."""
MAX_TEXT = 1000
"""Characters of a problem's text in an asset event."""

RANDOM = random.Random()  # noqa: S311 of intervals, not of secrets
"""The source of the random intervals; a test seeds it."""


RECREATE = "delete it and create it again"
_FIXES_OF_PAUSE = {
    types.BY_USER: "a user paused it; to resume it: {resume}",
    "authentication": (
        "the credentials of the app's account expired: connect the account again; then: {resume}"
    ),
    "authentication_access_revoked": (
        "the access to the app's account was revoked: grant it again, and connect it; then: {resume}"
    ),
    "partner_revoked": "ask the maker of the connected app why it withdrew the access; then: {resume}",
    "subscribe_failed": "check the subscription's inputs with the connected app; then: {resume}",
    "migrate_failed": "{resume}; if that fails, {recreate}",
    "abandoned": "no messages were leased for a long time: unpause its listener; then: {resume}",
    "upstream_failures": (
        "check whether the connected app has a problem; when it is solved: {resume}"
    ),
}  # fmt: skip
"""By ``paused_reason`` (docs/service.md 2.3), an open enumeration."""
_FIX_OF_OTHER_PAUSE = "find out why the inbox was paused; then: {resume}"


@dataclass(frozen=True)
class SourceProblem:
    """
    Why no events arrive from an inbox, or why it cannot be used, until a user corrects that.

    :param kind: ``paused``, ``failed`` (to initialize), ``deleting``, ``missing``, ``rejected`` (the
        credentials), ``unusable``, or ``no_store`` (payloads cannot be written).
    :param text: what is wrong with which inbox, and the fix.
    :param state: what is wrong, in a few words; empty for what an error shows.
    :param fix: what to do about it.
    :param is_wanted: whether a user has paused the inbox: that is no alarm.
    :param may_be_away: whether it may only be that Airflow's API is away at the moment.
    """

    kind: str
    text: str
    state: str = ""
    fix: str = ""
    is_wanted: bool = False
    may_be_away: bool = False

    def is_alarm(self, on_paused: str = "fail") -> bool:
        """
        Whether a listener reports the problem once it lasts, rather than waits.

        :param on_paused: of the listener; with anything but ``fail`` it waits while the inbox is paused.
        """
        return not self.is_wanted and (self.kind != types.PAUSED or on_paused == "fail")

    @property
    def seconds_to_alarm(self) -> float:
        """Seconds for which the problem has to last until it is an alarm."""
        if self.kind == NO_STORE:
            return MIN_APART_STORE_SECONDS
        return MIN_APART_AWAY_SECONDS if self.may_be_away else MIN_APART_SECONDS

    @classmethod
    def of(cls, stored: Any) -> SourceProblem | None:
        """The problem in an event of a trigger or a notice; None if that has none."""
        from airflow_provider_workflow.text import escaped

        if not isinstance(stored, Mapping):
            return None
        kind, text = (escaped(str(stored.get(name) or "unknown"), MAX_TEXT) for name in ("kind", "text"))
        return cls(kind, text)

    def described(self) -> dict[str, str]:
        """The problem as JSON, for an event."""
        from airflow_provider_workflow.text import escaped

        return {"kind": self.kind, "text": escaped(self.text, MAX_TEXT)}


class SourceError(AirflowException):
    """
    Nothing can be leased, and only a user can correct that: no events arrive from the inbox, and it has no
    messages; or their payloads cannot be written.

    :param problem: what is wrong, and the fix.
    """

    def __init__(self, problem: SourceProblem) -> None:
        super().__init__(problem.text)
        self.problem = problem

    def __reduce__(self) -> tuple[type[SourceError], tuple[SourceProblem]]:
        return type(self), (self.problem,)


def problem_of(
    inbox: Mapping[str, Any], name: str, conn_id: str, *, resume: str = "", recreate: str = RECREATE
) -> SourceProblem | None:
    """
    Why no events arrive in an inbox; None if they arrive.

    :param inbox: its ``status`` and ``paused_reason`` (docs/service.md 2.3).
    :param name: its id or name, for the text.
    :param conn_id: id of the Airflow connection, for the fix.
    :param resume: how to resume it, if not by a command.
    :param recreate: how to delete it and create it again.
    """
    from airflow_provider_workflow.text import escaped

    status, reason = inbox.get("status"), inbox.get("paused_reason")
    reason_text = escaped(str(reason or "no reason given"))
    if status == types.PAUSED:
        command = (
            f"airflow-workflow inbox resume {shlex.quote(escaped(name))} --conn-id {shlex.quote(conn_id)}"
        )
        fix = _FIXES_OF_PAUSE.get(str(reason), _FIX_OF_OTHER_PAUSE)
        fix = fix.format(resume=resume or command, recreate=recreate)
        text = f"Inbox {name!r} is paused ({reason_text}), and new events are dropped. What to do: {fix}"
        state = f"paused ({reason_text}): new events are dropped"
        return SourceProblem("paused", text, state, fix, is_wanted=reason == types.BY_USER)
    if status == types.FAILED:
        text = f"Inbox {name!r} failed to initialize ({reason_text}). {recreate.capitalize()}."
        return SourceProblem("failed", text, f"failed to initialize ({reason_text})", recreate)
    if status == types.DELETING:
        return SourceProblem("deleting", f"Inbox {name!r} is being deleted", "being deleted")
    return None


def problem_of_error(error: Exception) -> SourceProblem | None:
    """
    The problem that an error shows; None if it is transient, or not of the source.

    Retries do not help against a problem: it lasts until a user corrects the inbox or the connection.
    """
    from airflow_provider_workflow.client.errors import (
        AuthenticationError,
        ConfigurationError,
        NotFoundError,
    )
    from airflow_provider_workflow.hooks.workflow import may_be_away

    if isinstance(error, SourceError):
        return error.problem
    kinds = {NotFoundError: "missing", AuthenticationError: "rejected", ConfigurationError: "unusable"}
    for type_, kind in kinds.items():
        if isinstance(error, type_):
            return SourceProblem(kind, str(error), may_be_away=may_be_away(error))
    return None


def reading_pause() -> float:
    """Random seconds until the next reading."""
    return RANDOM.uniform(*READING_SECONDS)


@dataclass
class Alarm:
    """
    Decides when the problems of one source are an alarm.

    All times are epoch seconds, as they are passed on to other processes.

    :param problem: of the last reading; None if the source was sound.
    :param kind: of the last problem.
    :param began_at: the first problem of the trouble; None without a trouble.
    :param problem_at: the last problem of the trouble.
    :param alarmed_at: its last alarm; None before the first one.
    :param sound_at: the last reading at which the source was sound.
    :param is_recalled: whether an earlier process was asked for its part of the trouble.
    """

    problem: SourceProblem | None = None
    kind: str = ""
    began_at: float | None = None
    problem_at: float | None = None
    alarmed_at: float | None = None
    sound_at: float | None = None
    is_recalled: bool = False

    @classmethod
    def of(cls, record: Any) -> Alarm:
        """The state in a record of this version; without any for one that cannot be read."""
        alarm = cls()
        if isinstance(record, Mapping):
            for name in ("began_at", "problem_at", "alarmed_at", "sound_at"):
                value = record.get(name)
                setattr(alarm, name, value if isinstance(value, (int, float)) else None)
            alarm.kind = str(record.get("kind") or "")
            alarm.is_recalled = record.get("is_recalled") is True
        return alarm

    def record(self) -> dict[str, Any]:
        """The state as JSON, for another process."""
        return {
            "kind": self.kind,
            "began_at": self.began_at,
            "problem_at": self.problem_at,
            "alarmed_at": self.alarmed_at,
            "sound_at": self.sound_at,
            "is_recalled": self.is_recalled,
        }

    def sound(self) -> bool:
        """
        Take a reading without a problem.

        :return: whether it ends the trouble.
        """
        self.problem, self.sound_at = None, clock.now()
        if self.problem_at is None or self.sound_at - self.problem_at < SOUND_SECONDS:
            return False
        self.began_at = self.problem_at = self.alarmed_at = None
        self.is_recalled = False
        return True

    def found(self, problem: SourceProblem) -> None:
        """Take a reading with a problem."""
        now = clock.now()
        self.problem, self.kind, self.problem_at = problem, problem.kind, now
        if self.began_at is None:
            self.began_at = now

    def lasts_since(self, at: float) -> None:
        """
        Take over from another process when the trouble began, if that is earlier.

        :param at: in seconds since 1970.
        """
        self.began_at = at if self.began_at is None else min(at, self.began_at)

    def recall(self, record: Any, sound_at: float | None = None) -> None:
        """
        Continue the trouble that an earlier process recorded, unless it is over.

        :param record: of the earlier process.
        :param sound_at: when another process had found the source sound.
        """
        self.is_recalled = True
        former, now = Alarm.of(record), clock.now()
        if former.began_at is None or former.problem_at is None:
            return
        sound_until = max((at for at in (sound_at, self.sound_at) if at is not None), default=-float("inf"))
        age = now - former.problem_at
        is_over = sound_until - former.problem_at >= SOUND_SECONDS or age >= ALARM_AGAIN_SECONDS
        if is_over or (former.alarmed_at is None and age >= SOUND_SECONDS):
            return
        self.began_at = min(former.began_at, now if self.began_at is None else self.began_at)
        self.problem_at = max(former.problem_at, self.problem_at or 0)
        self.alarmed_at = max((at for at in (former.alarmed_at, self.alarmed_at) if at), default=None)

    def is_due(self, patience: float = 0) -> bool:
        """
        Whether the problem of the last reading is an alarm now.

        :param patience: seconds to wait longer, for a second listener that would raise the same alarm.
        """
        if self.problem is None or self.began_at is None:
            return False
        if self.alarmed_at is not None:
            return clock.now() - self.alarmed_at >= ALARM_AGAIN_SECONDS + patience
        return clock.now() - self.began_at >= self.problem.seconds_to_alarm + patience

    @property
    def is_unconfirmed(self) -> bool:
        """Whether there is a trouble that another reading may make an alarm."""
        return self.began_at is not None and self.alarmed_at is None

    def raised(self) -> None:
        """Record that the alarm was raised."""
        self.alarmed_at = clock.now()

    @property
    def since(self) -> str:
        """When the trouble began, in UTC."""
        return moments.iso(self.began_at if self.began_at is not None else clock.now())
