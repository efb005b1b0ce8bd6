"""A schema at the door: a message whose payload does not fit it starts no run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.run_errors import RunRejected

LONGEST_PATH = 200
Fault = tuple[Iterable[str | int], str]
"""Where a payload does not fit, and the rule."""


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
    :return: a function that raises ``InvalidPayloadError`` for a payload that does not fit, and
        ``RunRejected`` if the schema's own code fails.
    :raises ValueError: it is no schema.
    """
    fault_of = _of_json_schema(schema) if isinstance(schema, Mapping) else _of_type(schema)

    def check(payload: Any) -> None:
        try:
            fault = fault_of(payload)
        except (RecursionError, ArithmeticError, ValueError) as error:  # too deep, too large
            fault = (), type(error).__name__
        except Exception as error:
            name = type(error).__name__
            raise RunRejected(f"a validator of the schema raised {name}; correct it") from None
        if fault is not None:
            raise InvalidPayloadError(*fault)

    return check


def _of_json_schema(schema: Mapping[str, Any]) -> Callable[[Any], Fault | None]:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"schema is no valid JSON Schema: {error.json_path}: {error.message}") from None
    _check_references(schema, kind, REGISTRY)
    validator = kind(schema, registry=REGISTRY)  # without it, addresses in a $ref are fetched

    def fault_of(payload: Any) -> Fault | None:
        error = next(validator.iter_errors(payload), None)
        if error is None:
            return None
        path = list(error.absolute_path)
        if error.validator == "required" and isinstance(error.validator_value, list):
            path.append(next(name for name in error.validator_value if name not in error.instance))
        return path, error.validator or "false"

    return fault_of


def _check_references(schema: Mapping[str, Any], kind: Any, registry: Any) -> None:
    contents = {**schema, "$schema": kind.ID_OF(kind.META_SCHEMA)}  # an unknown one counts as the newest
    root = registry.with_contents([("", contents)])[""]
    unchecked = [(root, registry.resolver_with_root(root))]
    while unchecked:
        part, resolver = unchecked.pop()
        unchecked += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]
        reference = part.contents.get("$ref") if isinstance(part.contents, Mapping) else None
        try:
            if reference is not None:
                kind.check_schema(resolver.lookup(reference).contents)
        except Exception:  # also what a malformed address raises
            text = f"schema has a $ref that leads to no schema: {reference!r}; define it under $defs"
            raise ValueError(text) from None


def _of_type(schema: Any) -> Callable[[Any], Fault | None]:
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(schema)
        adapter.rebuild()
    except Exception as error:  # whatever pydantic raises for what it cannot validate
        text = str(error).partition("\n")[0]
        raise ValueError(f"schema must be a type, or a JSON Schema as a dictionary: {text}") from None

    def fault_of(payload: Any) -> Fault | None:
        text = any_json.dumped(payload)
        faults: list[Fault] = []
        # A strict type takes a string for a date only in JSON; pydantic's parser rejects what is deep or cut.
        for validate in (adapter.validate_json, lambda text: adapter.validate_python(any_json.decode(text))):
            try:
                validate(text)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                faults.append((first["loc"], first["type"]))
            else:
                return None
        return faults[1] if faults[0][1] == "json_invalid" else faults[0]

    return fault_of
