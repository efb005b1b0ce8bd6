"""The base of the triggers: serialization by arguments, and errors of constructors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from airflow.exceptions import AirflowOptionalProviderFeatureException

from airflow_provider_workflow.airflow_internals import airflow_release, needs
from airflow_provider_workflow.client.arguments import require_text

MAX_QUEUE_NAME_LENGTH = 256
"""Characters of the name of a queue of triggerers, in Airflow's database."""


class SerializesArguments:
    """
    Serializes a trigger by the attributes that :attr:`ARGUMENTS` names.

    The path is that of the instance's class, so subclasses work. Arguments must not be secrets: Airflow
    stores them in its database.
    """

    ARGUMENTS: ClassVar[tuple[str, ...]]
    """Names of the constructor's parameters; each is also an attribute."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and the arguments."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self.ARGUMENTS}


def queue_of_triggerers(queue: str | None, trigger: str) -> dict[str, str]:
    """
    The argument of ``BaseEventTrigger`` for a queue of triggerers; empty without one.

    :param trigger: name of the class of the trigger, for errors.
    :raises ValueError: the queue is empty, or not a string.
    :raises AirflowOptionalProviderFeatureException: a queue is given, and this Airflow is older than 3.4.
    """
    if queue is None:
        return {}
    require_text("queue", queue, MAX_QUEUE_NAME_LENGTH)
    if airflow_release() < (3, 4):
        fix = "leave it out, and every triggerer may run the watcher"
        raise needs(f"{trigger}(queue=...)", fix, (3, 4))
    return {"queue": queue}


@contextmanager
def type_errors_in_triggerer() -> Iterator[None]:
    """
    In a triggerer, convert errors of a trigger's constructor to TypeError, the only one that it survives.

    When a DAG file is parsed they are a ValueError. In a triggerer, which may have another version of this
    package or of Airflow, that would end the triggerer with all its triggers, repeatedly.
    """
    try:
        yield
    except (ValueError, AirflowOptionalProviderFeatureException) as error:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # a DAG file is parsed: without an event loop, unlike the constructors of a triggerer
        else:
            raise TypeError(str(error)) from error
        raise
