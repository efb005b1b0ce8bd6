"""A trigger's arguments: all that it holds, what it is serialised by, and how it refuses a wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from airflow.exceptions import AirflowOptionalProviderFeatureException


class SerializesArguments:
    """
    Serialises a trigger by the attributes that :attr:`ARGUMENTS` names.

    The class is the instance's own, so that a subclass survives. No argument is a secret: Airflow keeps
    them in its database.
    """

    ARGUMENTS: ClassVar[tuple[str, ...]]
    """Names of the constructor's parameters, each of which is an attribute as well."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and the arguments."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self.ARGUMENTS}


@contextmanager
def sparing_the_triggerer() -> Iterator[None]:
    """
    Turn what a trigger's constructor raises into the one error that a triggerer survives, a TypeError.

    Arguments and versions are checked when the DAG file is parsed, where a ValueError is right. Where they
    are wrong only for the triggerer, which may have another version of this package or of Airflow, it would
    end the triggerer with all of its triggers, again and again.
    """
    try:
        yield
    except (ValueError, AirflowOptionalProviderFeatureException) as error:
        if is_in_a_triggerer():
            raise TypeError(str(error)) from error
        raise


def is_in_a_triggerer() -> bool:
    """Whether an event loop is running: triggerers make triggers in one, and nobody parses DAGs there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
