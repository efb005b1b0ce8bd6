"""The retries of tasks that work on messages, for users who give none."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator


class RetriesByDefault(BaseOperator):
    """
    Is retried with growing pauses, unless arguments or ``default_args`` say otherwise.

    A try may use one of a message's few deliveries, so the pauses begin with ``retry_delay`` (10 s) and
    double up to ``max_retry_delay``. An argument that is given wins, each by itself; a longer ``retry_delay``
    raises the default of ``max_retry_delay``.
    """

    RETRIES: ClassVar[int] = 5
    LONGEST_PAUSE: ClassVar[timedelta] = timedelta(minutes=10)
    _max_retry_delay: timedelta | float | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Airflow passes the default_args of the task, its task groups and its DAG, merged.
        given = {*kwargs, *(kwargs.get("default_args") or {})}
        added = {name: value for name, value in self._by_default().items() if name not in given}
        super().__init__(**kwargs, **added)
        self._limit_grows = "max_retry_delay" not in given

    @property
    def max_retry_delay(self) -> timedelta | float | None:
        """The limit of the pauses: what was given, else the default or a longer ``retry_delay``."""
        # A cluster policy may set the retry_delay at any time after the constructor.
        return max(self.LONGEST_PAUSE, self.retry_delay) if self._limit_grows else self._max_retry_delay

    @max_retry_delay.setter
    def max_retry_delay(self, value: timedelta | float | None) -> None:
        self._max_retry_delay, self._limit_grows = value, False

    @classmethod
    def _by_default(cls) -> dict[str, Any]:
        return {
            "retries": cls.RETRIES,
            "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": True,
            "max_retry_delay": cls.LONGEST_PAUSE,
        }

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """
        The same as ``BaseOperator.partial``, with the retries of this class, where the scheduler reads them.

        Airflow adds those of ``BaseOperator``; from 3.3 on those of constructors, without
        ``max_retry_delay``.
        """
        partial = super().partial(**kwargs)
        values = partial.kwargs
        given = _given_to_partial(kwargs, values)
        values.update((name, value) for name, value in cls._of_constructors().items() if name not in given)
        if "max_retry_delay" not in given and values["max_retry_delay"] is not None:
            values["max_retry_delay"] = max(values["max_retry_delay"], values["retry_delay"])
        return partial

    @classmethod
    def _of_constructors(cls) -> dict[str, Any]:
        """The defaults, and those of the constructors of derived classes, of which the last one wins."""
        found = cls._by_default()
        for base in reversed(cls.mro()[: cls.mro().index(RetriesByDefault)]):
            if (init := vars(base).get("__init__")) is not None:
                parameters = inspect.signature(init).parameters
                found.update((name, parameters[name].default) for name in found if name in parameters)
        return found


def _given_to_partial(kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> set[str]:
    """The arguments of ``partial``, and those in ``default_args`` of the task, its groups and its DAG."""
    parents = [each for each in (values["dag"], values["task_group"]) if each]
    default_args = [kwargs.get("default_args"), *(each.default_args for each in parents)]
    return set(kwargs).union(*(each or () for each in default_args))
