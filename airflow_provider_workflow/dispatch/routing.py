"""Which DAG a message is for: one DAG, a filter, or several DAGs chosen by JMESPath expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jmespath.visitor import TreeInterpreter

    from airflow_provider_workflow.client.json_steps import Pace

Message = Mapping[str, Any]


class Matcher(Protocol):
    """Whether an expression is true for a message; ``pace`` lets an event loop run other tasks meanwhile."""

    def __call__(self, message: Message, pace: Pace | None = None) -> bool: ...


def matcher(field: str, expression: str) -> Matcher:
    """
    Compile a JMESPath expression over a message: ``id``, ``created_at``, ``payload``, ``message_attributes``.

    Truth is that of JMESPath: null, false, and empty strings, lists and objects are false; 0 is true.

    :param field: name of the expression in the error.
    :raises ValueError: the expression is not valid.
    """
    import jmespath
    from jmespath.exceptions import JMESPathError

    if not isinstance(expression, str):
        raise ValueError(f"{field} must be a JMESPath expression, not {expression!r}")
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise ValueError(f"{field} is no valid JMESPath expression: {error}") from None

    def matches(message: Message, pace: Pace | None = None) -> bool:
        try:
            if pace is None:
                found = compiled.search(message)
            else:
                found = _interpreter(pace).visit(compiled.parsed, message)
        except Exception as error:
            # Some values fail inside the library with built-in exceptions (a slice of step 0, a payload too
            # deep for to_string); these are errors of this one message as well.
            raise UnroutableError(f"{field} cannot be evaluated on it: {_without_values(error)}") from None
        return not (found is None or found is False or found in ("", [], {}))

    return matches


def _interpreter(pace: Pace) -> TreeInterpreter:
    """Evaluates an expression in steps: one for each part of it and each element."""
    from jmespath.visitor import TreeInterpreter

    interpreter = TreeInterpreter()
    visit = interpreter.visit

    def paced(*given: Any, **named: Any) -> Any:
        pace()
        return visit(*given, **named)

    interpreter.visit = paced  # type: ignore[method-assign]
    return interpreter


def _without_values(error: Exception) -> str:
    """Why an expression fails, without the value, which JMESPath quotes."""
    from jmespath.exceptions import JMESPathTypeError

    from airflow_provider_workflow.client.wire import plain

    if isinstance(error, JMESPathTypeError):
        types = " or ".join(map(str, error.expected_types))
        return f"{error.function_name}() takes {types}, and was given {plain(str(error.actual_type))}"
    return type(error).__name__


class UnroutableError(ValueError):
    """An expression cannot be evaluated on this one message."""


class Routes:
    """
    Chooses the DAG of a message.

    :param targets: the DAG id for all messages, or DAG ids with a JMESPath expression each, of which the
        first that is true decides; None if messages start no runs.
    :param match: JMESPath expression; messages for which it is false are unmatched.
    :raises ValueError: an expression is not valid, or there is no DAG id.
    """

    def __init__(self, targets: str | Mapping[str, str] | None, match: str | None = None) -> None:
        self._match = matcher("match", match) if match else None
        self._targets: list[tuple[str, Matcher | None]] = []
        if isinstance(targets, Mapping):
            for dag_id, expression in targets.items():
                self._targets.append((dag_id, matcher(f"trigger_dag_id[{dag_id!r}]", expression)))
        elif targets is not None:
            self._targets.append((targets, None))
        if targets is not None and not all(dag_id for dag_id, _ in self._targets or [("", None)]):
            raise ValueError("trigger_dag_id must name at least one DAG")

    @property
    def dag_ids(self) -> list[str]:
        """All DAGs that a message may start a run of."""
        return [dag_id for dag_id, _ in self._targets]

    def accepts(self, message: Message) -> bool:
        """
        Whether ``match`` is true for the message.

        :raises UnroutableError: ``match`` cannot be evaluated on it.
        """
        return self._match is None or self._match(message)

    def target(self, message: Message) -> str | None:
        """
        The DAG of the message; None if it is unmatched.

        :raises UnroutableError: an expression cannot be evaluated on it.
        """
        if not self.accepts(message):
            return None
        for dag_id, matches in self._targets:
            if matches is None or matches(message):
                return dag_id
        return None
