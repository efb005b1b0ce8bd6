"""A schema at the door: a message whose payload does not fit it starts no run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.dispatch.run_errors import RunRejected
from airflow_provider_workflow.dispatch.schema_errors import of_keyword, of_pydantic
from airflow_provider_workflow.text import escaped

MAX_PATH_LENGTH = 200
Fault = tuple[Iterable[str | int], str]
"""Where a payload does not fit, and why."""


class InvalidPayloadError(ValueError):
    """A payload does not fit the schema. The text has the path and the reason, and no value."""

    def __init__(self, path: Iterable[str | int], reason: str) -> None:
        keys = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in path]
        place = escaped("$" + "".join(keys), MAX_PATH_LENGTH)
        super().__init__(f"its payload does not fit the schema: {place}: {reason}")


def checker(schema: Any) -> Callable[[Any], None]:
    """
    Compile a schema.

    A keyword of a JSON Schema that looks misspelled, or that only another draft has, is a warning.

    :param schema: a JSON Schema as a dictionary, or a type that pydantic can validate, such as a
        ``TypedDict``, a dataclass or a model.
    :return: a function that raises ``InvalidPayloadError`` for a payload that does not fit, and
        ``RunRejected`` if the schema's own code fails.
    :raises ValueError: it is no schema, or no payload can be checked against it; the text names the fix.
    """
    fault_of = _of_json_schema(schema) if isinstance(schema, Mapping) else _of_type(schema)

    def check(payload: Any) -> None:
        try:
            fault = fault_of(payload)
        except (RecursionError, ArithmeticError, ValueError):
            fault = (), "nested too deeply, or with too large a number"
        except Exception as error:
            name = type(error).__name__
            raise RunRejected(f"a validator of the schema raised {name}; correct it") from None
        if fault is not None:
            raise InvalidPayloadError(*fault)

    return check


def _of_json_schema(schema: Mapping[str, Any]) -> Callable[[Any], Fault | None]:
    from airflow_provider_workflow.dispatch.json_schema import validator_of

    validator = validator_of(schema)

    def fault_of(payload: Any) -> Fault | None:
        error = next(validator.iter_errors(payload), None)
        if error is None:
            return None
        path = list(error.absolute_path)
        if error.validator == "required" and isinstance(error.validator_value, list):
            path.append(next(name for name in error.validator_value if name not in error.instance))
        return path, of_keyword(error.validator, error.validator_value)

    return fault_of


def _of_type(schema: Any) -> Callable[[Any], Fault | None]:
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(schema)
        adapter.rebuild()
    except Exception as error:  # whatever pydantic raises for what it cannot validate
        text = str(error).partition("\n")[0]
        raise ValueError(f"schema must be a type, or a JSON Schema as a dictionary: {text}") from None
    if _imports_what_it_is_given(adapter.core_schema):
        raise ValueError(
            "schema has an ImportString, which would import what a payload names: declare the field as str"
        )

    def fault_of(payload: Any) -> Fault | None:
        text = tolerant_json.dumped(payload)
        faults: list[Fault] = []
        codes: list[str] = []
        # A strict type takes a string for a date only in JSON; pydantic's parser rejects what is deep or cut.
        for validate in (
            adapter.validate_json,
            lambda text: adapter.validate_python(tolerant_json.decode(text)),
        ):
            try:
                validate(text)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                codes.append(first["type"])
                faults.append((first["loc"], of_pydantic(first["type"], first.get("ctx") or {})))
            else:
                return None
        return faults[codes[0] == "json_invalid"]

    return fault_of


def _imports_what_it_is_given(core_schema: Any) -> bool:
    """Whether a type has pydantic's ``ImportString`` as a part."""
    unread, known = [core_schema], set()
    while unread:
        part = unread.pop()
        if id(part) in known:
            continue
        known.add(id(part))
        if isinstance(part, dict):
            unread += part.values()
        elif isinstance(part, (list, tuple)):
            unread += part
        elif getattr(part, "__name__", "") == "import_string" and part.__module__.startswith("pydantic."):
            return True
    return False
