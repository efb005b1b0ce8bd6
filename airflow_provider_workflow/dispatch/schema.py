"""A schema at the door: a message whose payload does not fit it starts no run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.client.wire import plain

LONGEST_PATH = 200


class InvalidPayloadError(ValueError):
    """A payload does not fit the schema. The text has the path and the rule, and no value."""

    def __init__(self, path: Iterable[str | int], rule: str) -> None:
        keys = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in path]
        place = plain("$" + "".join(keys), LONGEST_PATH)
        super().__init__(f"its payload does not fit the schema: {place}: {rule}")


def checker(schema: Any) -> Callable[[Any], None]:
    """
    Compile a schema.

    :param schema: a JSON Schema as a dictionary, or a type that pydantic can validate, such as a
        ``TypedDict``, a dataclass or a model.
    :return: a function that raises ``InvalidPayloadError`` for a payload that does not fit.
    :raises ValueError: it is no schema.
    """
    return _of_json_schema(schema) if isinstance(schema, Mapping) else _of_type(schema)


def _of_json_schema(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"schema is no valid JSON Schema: {error.json_path}: {error.message}") from None
    validator = kind(schema, registry=REGISTRY)  # without it, addresses in a $ref are fetched

    def check(payload: Any) -> None:
        try:
            error = next(validator.iter_errors(payload), None)
        except Exception as error:  # too deep, a number that is too large, a $ref that leads nowhere
            raise InvalidPayloadError((), type(error).__name__) from None
        if error is None:
            return
        path = list(error.absolute_path)
        if error.validator == "required" and isinstance(error.validator_value, list):
            path.append(next(name for name in error.validator_value if name not in error.instance))
        raise InvalidPayloadError(path, error.validator or "false")

    return check


def _of_type(schema: Any) -> Callable[[Any], None]:
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(schema)
        adapter.rebuild()
    except Exception as error:  # whatever pydantic raises for what it cannot validate
        text = str(error).partition("\n")[0]
        raise ValueError(f"schema must be a type, or a JSON Schema as a dictionary: {text}") from None

    def fault(validate: Callable[[Any], Any], value: Any) -> Mapping[str, Any] | None:
        try:
            validate(value)
        except ValidationError as error:
            return error.errors(include_url=False, include_context=False, include_input=False)[0]
        except Exception as error:  # of a validator of the user's own
            return {"loc": (), "type": type(error).__name__}
        return None

    def check(payload: Any) -> None:
        text = any_json.dumped(payload)
        in_json = fault(adapter.validate_json, text)
        # A strict type takes a string for a date only in JSON; pydantic's parser rejects what is deep or cut.
        in_python = in_json and fault(adapter.validate_python, any_json.decode(text))
        if in_json and in_python:
            first = in_python if in_json["type"] == "json_invalid" else in_json
            raise InvalidPayloadError(first["loc"], first["type"])

    return check
