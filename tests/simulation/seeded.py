"""
Faults that the simulation must notice: those of ``tests/mutations`` in the code that it plays, and more.

A fault is seeded into the running process: the functions that it changes get its code, until they are
restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import airflow_provider_workflow
from tests.mutations.fault import Fault as TreeFault
from tests.mutations.faults import FAULTS

PACKAGE = Path(airflow_provider_workflow.__file__).parent
PLAYED = (
    *("dispatch/dispatcher.py", "dispatch/lease.py", "dispatch/runs.py"),
    *("dispatch/rejections.py", "dispatch/rejected.py", "dispatch/targets.py", "dispatch/dead_letters.py"),
    "sensors/work.py",
)


@dataclass(frozen=True)
class Fault:
    """
    One change of the source.

    :param name: what the change breaks.
    :param file: below the package.
    :param old: the code to replace; it occurs once in the file.
    :param new: the faulty code.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def seeded(self, package: Path) -> tuple[Path, str]:
        """
        The file, and its source with the fault in it.

        :raises ValueError: the code to replace is not there, or there more than once.
        """
        source = (package / self.file).read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file} has this {source.count(self.old)} times: {self.old!r}")
        return package / self.file, source.replace(self.old, self.new)


AnyFault = Fault | TreeFault
UNNOTICED = {
    "take any run with the id of a message for its run": "no history has a run that is not the package's",
    "stop probing with the first rejection of every try": "that is slower, and only rule 15 limits it",
}
"""Faults of ``tests/mutations`` that break no rule in a history, and why."""
MORE = (
    Fault(
        "start runs after the lease has expired",
        "dispatch/lease.py",
        "        return self.ends_at - MARGIN_SECONDS - clock.now()",
        "        return self.ends_at + 300.0 - clock.now()",
        (),
    ),
    Fault(
        "release what was acknowledged",
        "dispatch/lease.py",
        "                acknowledge(hook, lease.inbox_id, lease_id, message_ids, self.inbox)",
        "                hook.release_messages(lease.inbox_id, lease_id, message_ids)",
        (),
    ),
    Fault(
        "treat the answer that a run exists as an error",
        "dispatch/runs.py",
        '        if refusal not in (None, "DAGRUN_ALREADY_EXISTS"):',
        "        if refusal is not None:",
        (),
    ),
    Fault(
        "lease more than one message first",
        "dispatch/dispatcher.py",
        "        if not self._is_probing:",
        "        if True:",
        (),
    ),
    Fault(
        "lease probes after a failed try for no longer than others",
        "dispatch/dispatcher.py",
        "PROBE_SECONDS if self.attempt > 1 else limits.lease_seconds",
        "limits.lease_seconds",
        (),
    ),
)
"""Faults of this package's heart that unit tests notice in other ways."""
OF_DEAD_LETTERS = (
    Fault(
        "start a dead letter of a message that may have a run",
        "dispatch/rejected.py",
        "        if self.dead_letters.may_have_run(message, lease.inbox_id, rejection.dag_id):",
        "        if False:",
        (),
    ),
    Fault(
        "blame the message for each rejection",
        "dispatch/rejected.py",
        "        self._undecided.append(rejection)\n        self.left_until",
        "        self.blame_message(rejection)\n        self.left_until",
        (),
    ),
    Fault(
        "start no dead letter while the target is at fault",
        "dispatch/dead_letters.py",
        "    return delivery_count(message) >= LAST_SAFE_DELIVERY",
        "    return False",
        (),
    ),
    Fault(
        "take an existing run as proof that the target works",
        "dispatch/dispatcher.py",
        "        if outcome is Start.STARTED:\n            # Airflow",
        "        if outcome is not None:\n            # Airflow",
        (),
    ),
    Fault(
        "start a dead letter on any delivery",
        "dispatch/dead_letters.py",
        "        return count is None or count >= self.rules.after",
        "        return True",
        (),
    ),
    Fault(
        "start dead letters of messages that no route takes, though they are left to their leases",
        "dispatch/rejected.py",
        ' and letters.rules.unmatched == "dead_letter"',
        "",
        (),
    ),
    Fault(
        "do not acknowledge a dead letter",
        "dispatch/rejected.py",
        '            self.finish(lease, message["id"])',
        "            pass",
        (),
    ),
)
"""Faults of dead letters."""


@cache
def faults() -> list[AnyFault]:
    """All faults in the code that is played."""
    played = {PACKAGE / name for name in PLAYED}
    return [*(each for each in FAULTS if each.seeded(PACKAGE)[0] in played), *MORE, *OF_DEAD_LETTERS]


def fault(name: str) -> AnyFault:
    """The fault of this name."""
    return next(each for each in faults() if each.name == name)


@contextmanager
def seeded(chosen: AnyFault) -> Iterator[None]:
    """
    Within it the package has a fault.

    :raises ValueError: the fault changes no function.
    """
    path, source = chosen.seeded(PACKAGE)
    name = ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts))
    faulty = _codes(compile(source, str(path), "exec"))
    sound = _codes(compile(path.read_text(), str(path), "exec"))
    before = {
        function: function.__code__
        for function in _functions(import_module(name))
        if _differ(sound.get(function.__qualname__), faulty.get(function.__qualname__))
    }
    if not before:
        raise ValueError(f"{chosen.name} changes no function of {name}")
    try:
        for function in before:
            function.__code__ = faulty[function.__qualname__]
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code


def _differ(one: CodeType | None, other: CodeType | None) -> bool:
    """Whether two versions of a function do different things, wherever their lines are."""
    if one is None or other is None:
        return False
    return _shape(one) != _shape(other)


def _shape(code: CodeType) -> tuple[Any, ...]:
    constants = tuple(_shape(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames


def _codes(code: CodeType, prefix: str = "") -> dict[str, CodeType]:
    """The code of each function of a module, by its qualified name."""
    found: dict[str, CodeType] = {}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            name = f"{prefix}{each.co_name}"
            found[name] = each
            found.update(_codes(each, f"{name}."))
    return found


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        members = vars(value).values() if isinstance(value, type) else [value]
        for member in members:
            function = _function(member)
            if function is not None and function.__module__ == module.__name__:
                yield function


def _function(member: Any) -> FunctionType | None:
    """The function behind a method, a property or a decorated function."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    member = getattr(member, "__func__", member)
    member = getattr(member, "__wrapped__", member)
    return member if isinstance(member, FunctionType) else None
