"""
The steps that an exchange yields beside requests and calls; a sender performs each in its own way.

Here apart, so that whatever yields a step can import it without importing who else does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pause:
    """
    A step: wait.

    :param seconds: how long, above 0.
    """

    seconds: float


@dataclass(frozen=True)
class ReadTokens:
    """A step: read the connection's user tokens from their store; answered with them, or None."""


@dataclass(frozen=True)
class WriteTokens:
    """
    A step: replace the connection's user tokens in their store.

    :param tokens: a ``UserTokens``.
    """

    tokens: Any = field(repr=False)


@dataclass(frozen=True)
class Read:
    """
    A step: make the value of an answer that takes long to read; answered with it.

    :param read: makes it; only computes.
    :param answer: what it is made of.
    """

    read: Callable[[Any], Any] = field(repr=False)
    answer: Any = field(repr=False)


@dataclass(frozen=True)
class CarryThrough:
    """
    A step: perform this exchange to its end, even where the caller is cancelled in the middle of it.

    :param exchange: must not be left half done; answered with what it returns.
    """

    exchange: Generator[Any, Any, Any] = field(repr=False)
