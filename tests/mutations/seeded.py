"""Seeds faults into functions of the running process, until they are restored."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import airflow_provider_workflow
from tests.mutations.fault import Fault, module_parts

PACKAGE = Path(airflow_provider_workflow.__file__).parent


@contextmanager
def seeded(fault: Fault) -> Iterator[None]:
    """Within it the package has a fault."""
    path, source = fault.seeded(PACKAGE)
    module = ".".join((PACKAGE.name, *module_parts(path, PACKAGE)))
    codes = {code.co_qualname: code for code in _codes(compile(source, str(path), "exec"))}
    name = next(
        name for name in codes if f"{module}.{name.replace('.<locals>', '')}".endswith(f".{fault.function}")
    )
    # The code of a function within a function is a constant of the outer one.
    outer = name.partition(".<locals>")[0]
    function = _function(import_module(module), outer)
    sound = function.__code__
    # Without a call of super() it has no variable of its class any more, which its closure still holds.
    function.__code__ = codes[outer].replace(co_freevars=sound.co_freevars)
    try:
        yield
    finally:
        function.__code__ = sound


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of each function of a module."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _function(module: ModuleType, name: str) -> FunctionType:
    """The function of this qualified name, be it behind a property or a decorator."""
    member: Any = module
    for part in name.split("."):
        member = inspect.getattr_static(member, part)
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    member = inspect.unwrap(getattr(member, "__func__", member))
    assert isinstance(member, FunctionType)
    return member
