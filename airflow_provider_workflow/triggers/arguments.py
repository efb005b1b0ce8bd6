"""How a trigger is serialised: by its class and its arguments, as it holds nothing else."""

from __future__ import annotations

from typing import Any, ClassVar


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
