"""``schema``: a message whose payload does not fit it starts no run."""

from __future__ import annotations

import functools
import re
import socket
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import reduce
from typing import Annotated, Any, Literal, get_args
from unittest.mock import Mock
from uuid import UUID

import pytest
from airflow.sdk import task
from jsonschema import Draft202012Validator
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema
from typing_extensions import TypeAliasType, TypedDict, TypeVar

from airflow_provider_workflow.decorators.inbox_dag import payload_type
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.dispatch.schema import InvalidPayloadError, checker
from airflow_provider_workflow.dispatch.schema_errors import of_pydantic
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.types import Message
from tests.unit.workbench import INBOX, Workbench

DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NO_DRAFT = r"schema has an unknown \$schema: "
ENDLESS: tuple[dict[str, Any], ...] = (
    {"$ref": "#"},
    {"$dynamicRef": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"not": {"$ref": "#/$defs/a"}}]}}},
    {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "anyOf": [{"$recursiveRef": "#"}]},
)
NOWHERE = r"schema has a reference that leads to no schema \(\$ref: "
VALIDATOR = "rejected by a validator of the schema"
DEPENDENT = "lacks a field that another field requires"
SECRET = "4111 1111 1111 1111"


class Line(TypedDict):
    amount: int


class Order(TypedDict):
    number: str
    lines: list[Line]


@dataclass
class Dated:
    number: str


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    at: datetime
    of: UUID
    total: Decimal
    pair: tuple[int, int]


def reject(value: str) -> str:
    raise ValueError(f"{value} is not known")


class Imported(BaseModel):
    function: dict[str, list[ImportString[Any]]]


STRICT = {"at": "2026-01-01T00:00:00Z", "of": str(UUID(int=1)), "total": "1.5", "pair": [1, 2]}


class Model(BaseModel):
    number: str = Field(max_length=5)

    @field_validator("number")
    @classmethod
    def is_known(cls, number: str) -> str:
        return {"A-1": number}[number]


JSON_SCHEMA = {
    "type": "object",
    "required": ["number"],
    "properties": {
        "number": {"type": "string"},
        "lines": {"items": {"properties": {"amount": {"maximum": 9}}}},
    },
}


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        (
            Order,
            {"number": "A-1", "lines": [{"amount": 1}, {"amount": SECRET}]},
            "$.lines[1].amount: not a whole number",
        ),
        (Order, {"lines": []}, "$.number: missing"),
        (Order, SECRET, "$: not an object"),
        (Dated, {"number": [SECRET]}, "$.number: not a string"),
        (Model, {"number": SECRET}, "$.number: longer than 5 characters"),
        (int, SECRET, "$: not a whole number"),
        (JSON_SCHEMA, {"number": "A-1", "lines": [{"amount": 10}]}, "$.lines[0].amount: greater than 9"),
        (JSON_SCHEMA, {"no": SECRET}, "$.number: missing"),
        (JSON_SCHEMA, [SECRET], "$: not an object"),
        ({"properties": {"no": False}}, {"no": SECRET}, "$: not permitted"),
        ({"properties": {"x": {"$ref": "#"}, "$ref": {"const": {"$ref": "?"}}}}, None, None),
        ({"$defs": {"n": {"$id": "n", "$anchor": "n"}}, "not": {"not": {"$ref": "n#n"}}}, None, None),
        ({"$dynamicAnchor": "n", "properties": {"of": {"$dynamicRef": "#n"}}}, {"of": {"of": {}}}, None),
        ({"$schema": DRAFT_3, "extends": [{"type": "string"}]}, 1, "$: not a string"),
        ({"$schema": DRAFT_7.rstrip("#"), "dependencies": {"a": ["b"]}}, {"a": 1}, f"$: {DEPENDENT}"),
        (Order, {"number": "A-1", "lines": []}, None),
        (Dated, {"number": "A-1"}, None),
        (Model, {"number": "A-1"}, None),
        (Strict, STRICT, None),
        (Strict, {**STRICT, "pair": [1, "2"]}, "$.pair[1]: not a whole number"),
    ],
)
def test_a_payload_that_does_not_fit_is_named_by_path_and_rule_without_its_value(
    schema: Any, payload: Any, text: str | None
) -> None:
    check = checker(schema)
    if text is None:
        return check(payload)
    with pytest.raises(InvalidPayloadError) as invalid:
        check(payload)
    assert str(invalid.value) == f"its payload does not fit the schema: {text}"
    assert SECRET not in repr(invalid.value.__cause__)


def test_a_path_that_a_sender_makes_up_is_one_short_line() -> None:
    with pytest.raises(InvalidPayloadError) as invalid:
        checker({"additionalProperties": {"type": "string"}})({"a\nb" * 999: 1})
    assert "\n" not in str(invalid.value)
    assert len(str(invalid.value)) < 400


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"multipleOf": 0.01}, float("inf")),
        ({"multipleOf": 0.01}, 10**400),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"n": {"required": True}}}, {}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, 1),
        (
            {"items": {"$ref": "#"}},
            reduce(lambda value, _: [value], range(5000), []),
        ),
    ],
)
def test_a_payload_that_an_odd_schema_or_its_size_makes_invalid_is_invalid(schema: Any, payload: Any) -> None:
    with pytest.raises(InvalidPayloadError):
        checker(schema)(payload)


def test_where_a_validator_breaks_the_target_is_at_fault_unless_it_starts_runs(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", payload={"number": "A-9"})
    with pytest.raises(TargetError, match="a validator of the schema raised KeyError; correct it"):
        replace(bench.dispatcher(), check_payload=checker(Model)).drain()
    assert (bench.dead_letters, bench.states) == ({}, {"a": "leased"})

    bench.put("b", payload={"number": "A-1"})
    bench.put("c", payload={"number": "A-9"})
    replace(bench.dispatcher(), check_payload=checker(Model)).drain()
    assert {name: conf["reason"] for name, conf in bench.dead_letters.items()} == {"c": "rejected"}


def test_a_validator_that_changes_the_payload_changes_a_copy() -> None:
    class Flat(BaseModel):
        total: float

        @model_validator(mode="before")
        @classmethod
        def flatten(cls, payload: Any) -> Any:
            return {"total": payload.pop("amount")["value"]}

    payload = {"amount": {"value": 2}}
    checker(Flat)(payload)
    assert payload == {"amount": {"value": 2}}


def test_invalid_messages_become_dead_letters_and_the_others_are_started(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.supervisor.dags.add("dead")
    for number in range(20):
        bench.put(str(number), payload={"number": SECRET if number % 2 else "A-1"}, lease_count=0)
    operator = WorkflowInboxDispatchOperator(
        task_id="t",
        inbox=INBOX,
        trigger_dag_id="handle",
        schema={"properties": {"number": {"maxLength": 5}}},
        dead_letter_dag_id="dead",
        dead_letter_after=1,
    )
    result: Any = operator.execute({"ti": bench.ti})  # type: ignore[typeddict-item]

    assert (result["started"]["count"], result["dead_lettered"]["count"]) == (10, 10)
    assert {(conf["reason"], conf["cause"]) for conf in bench.dead_letters.values()} == {
        ("invalid", "its payload does not fit the schema: $.number: longer than 5 characters")
    }
    assert bench.states == {}
    assert SECRET not in caplog.text


def test_without_a_dead_letter_dag_an_invalid_message_is_left_to_its_lease_unless_it_has_its_run(
    bench: Workbench,
) -> None:
    bench.put("a", "b")
    bench.put("of an older schema", lease_count=1)
    bench.start_before("of an older schema")
    dispatcher = bench.dispatcher()
    dispatcher.check_payload = checker({"properties": {"n": {"const": "b"}}})
    dispatcher.drain()

    assert dispatcher.counts.result["existing"]["ids"] == ["of an older schema"]
    assert dispatcher.counts.result["started"]["ids"] == ["b"]
    assert bench.states == {"a": "leased"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "text"}, r"schema is no valid JSON Schema: \$.type: 'text' is not valid"),
        (object(), "schema must be a type, or a JSON Schema as a dictionary"),
        ("Order", "schema must be a type, or a JSON Schema as a dictionary"),
        ({"$ref": "http://127.0.0.1:9/schema"}, f"{NOWHERE}'http://127.0.0.1:9/schema'\\); define it under"),
        ({"properties": {"n": {"items": {"$ref": "#/$defs/no"}}}, "$defs": {"yes": {}}}, NOWHERE),
        ({"title": "no schema", "not": {"$ref": "#/title"}}, NOWHERE),
        ({"$defs": {"n": {}, "of": {"$id": "http://a/b", "not": {"$ref": "#/$defs/n"}}}}, NOWHERE),
        ({"$ref": "#/parts/a", "parts": {"a": {"items": {"$ref": "#/no"}}}}, f"{NOWHERE}'#/no'"),
        ({"$dynamicRef": "http://127.0.0.1:9/schema"}, r"schema has a reference .* \(\$dynamicRef: 'http"),
        ({"$dynamicRef": "#nowhere"}, r"schema has a reference .* \(\$dynamicRef: '#nowhere'\)"),
        ({"$schema": DRAFT_7.replace("http", "https")}, rf"{NO_DRAFT}'https:.*Did you mean '{DRAFT_7}'\?"),
        (
            {"$schema": "http://a.example/of-our-own"},
            rf"{NO_DRAFT}'http://a.* Known are http.*/2020-12/schema",
        ),
        ({"$schema": 7}, f"{NO_DRAFT}7. Known are"),
        ({"$defs": {"n": {"$schema": "http://a.example/of-our-own"}}}, f"{NO_DRAFT}'http://a.example"),
        *((schema, "schema has a reference that leads back to itself") for schema in ENDLESS),
        ({"$schema": DRAFT_3, "extends": {"type": "string"}}, "schema has extends .*a list of schemas"),
        ({"$schema": DRAFT_7, "dependencies": {"a": {}, "b": ["c"]}}, "schema has extends or dependencies"),
        (Imported, "schema has an ImportString, which would import what a payload names"),
        (list[Imported | None], "schema has an ImportString"),
    ],
)
def test_what_is_no_schema_is_named_where_the_dag_is_parsed_and_none_is_fetched(
    schema: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", connect := Mock(side_effect=OSError))
    with pytest.raises(ValueError, match=f"^{text}"):
        WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle", schema=schema)
    with pytest.raises(ValueError, match=r"^schema needs trigger_dag_id"):
        WorkflowInboxSensor(task_id="t", inbox=INBOX, schema=schema)
    assert connect.mock_calls == []


def test_each_schema_is_checked_once_however_many_references_lead_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_schema = Mock(wraps=Draft202012Validator.check_schema)
    monkeypatch.setattr(Draft202012Validator, "check_schema", check_schema)
    properties = {
        **{f"defined{number}": {"$ref": "#/$defs/defined"} for number in range(100)},
        **{f"elsewhere{number}": {"$ref": "#/parts/elsewhere"} for number in range(100)},
    }
    elsewhere = {"properties": {"of": {"items": {"$ref": "#/parts/elsewhere"}}}}
    checker({"properties": properties, "$defs": {"defined": {}}, "parts": {"elsewhere": elsewhere}})

    assert [call.args[0].keys() for call in check_schema.call_args_list] == [
        {"properties", "$defs", "parts"},
        {"properties"},
    ]


@pytest.mark.parametrize(
    ("schema", "fix"),
    [
        ({"require": ["a"]}, "'require', which has no effect: did you mean 'required'"),
        ({"items": {"property": {"a": {}}}}, "'property', which has no effect: did you mean 'properties'"),
        ({"$defs": {"n": {"anyof": []}}}, "'anyof', which has no effect: did you mean 'anyOf'"),
        ({"ref": "#/$defs/n"}, "'ref', which has no effect: did you mean '$ref'"),
        ({"dependencies": {"a": ["b"]}}, "'dependencies', which has no effect: only another draft has it"),
        ({"$schema": DRAFT_3, "const": 1}, "'const', which has no effect: only another draft has it"),
    ],
)
def test_a_keyword_without_effect_is_a_warning_where_the_dag_is_parsed(schema: Any, fix: str) -> None:
    with pytest.warns(UserWarning, match=f"^schema has the keyword {re.escape(fix)}"):
        WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle", schema=schema)


OPENAPI = ("discriminator", "example", "externalDocs", "nullable", "xml", "x-required", "x-require")
OF_FORMS = ("enumNames", "enumDescriptions", "errorMessage", "propertyOrder", "ui:order", "javaType", "links")


@pytest.mark.parametrize(
    "schema",
    [
        dict.fromkeys((*OPENAPI, *OF_FORMS), True),
        {"$comment": "", "deprecated": True, "examples": [{"require": 1}], "definitions": {"require": {}}},
        {"properties": {"require": {"const": {"property": 1}}}, "if": {}, "then": {}, "else": {}},
        {"$schema": DRAFT_3, "properties": {"a": {"required": True}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_other_keywords_are_no_warning(schema: Any, recwarn: pytest.WarningsRecorder) -> None:
    checker(schema)
    assert recwarn.list == []


def test_every_error_of_pydantic_has_a_reason_in_words() -> None:
    for code in get_args(core_schema.ErrorType):
        assert re.fullmatch(r"[A-Za-z ]+", of_pydantic(code, {}))


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        (float, SECRET, "not a number"),
        (Decimal, SECRET, "not a number"),
        (bool, SECRET, "not true or false"),
        (datetime, SECRET, "not a date and time"),
        (UUID, SECRET, "not a UUID"),
        (list[int], SECRET, "not a list"),
        (Literal["a"], SECRET, "not one of the permitted values"),
        (Annotated[int, Field(ge=3)], 1, "less than 3"),
        (Annotated[list[int], Field(min_length=2)], [1], "fewer than 2 items"),
        (Annotated[str, Field(pattern="^a")], SECRET, "does not match the pattern"),
        (Annotated[str, AfterValidator(reject)], SECRET, VALIDATOR),
        ({"type": "number"}, SECRET, "not a number"),
        ({"type": ["integer", "null"]}, SECRET, "not a whole number or null"),
        ({"enum": ["a"]}, SECRET, "not one of the permitted values"),
        ({"const": "a"}, SECRET, "not the permitted value"),
        ({"exclusiveMinimum": 3}, 3, "not greater than 3"),
        ({"minLength": 30}, SECRET, "shorter than 30 characters"),
        ({"minLength": 1}, "", "shorter than 1 character"),
        ({"minItems": 1}, [], "fewer than 1 item"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "more than 1 field"),
        (Annotated[str, Field(min_length=1)], "", "shorter than 1 character"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "more than 1 item"),
        ({"pattern": "^a"}, SECRET, "does not match the pattern"),
        ({"additionalProperties": False}, {"a": SECRET}, "has a field that is not in the schema"),
        ({"oneOf": [{}, {}]}, SECRET, "does not fit exactly one of the alternatives"),
        ({"not": {}}, SECRET, "fits what the schema excludes"),
    ],
)
def test_a_reason_is_a_sentence_of_plain_words(schema: Any, payload: Any, reason: str) -> None:
    with pytest.raises(InvalidPayloadError, match=rf" schema: \$: {reason}$"):
        checker(schema)(payload)


def test_the_annotation_of_a_function_is_the_schema() -> None:
    def typed(message: Message[Order], ti: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821

    def untyped(message): ...  # type: ignore[no-untyped-def]

    @task
    def decorated(message: Message[Dated]) -> None: ...

    wrapped = functools.wraps(typed)(eval("lambda message: None", {}))

    assert payload_type(typed) is payload_type(wrapped) is Order
    assert payload_type(decorated) is Dated
    assert payload_type(untyped) is payload_type(lambda: None) is None


def of(annotation: Any) -> Callable[[Any], None]:
    """A function whose argument has this annotation."""

    def handle_order(message: Any) -> None: ...

    handle_order.__annotations__["message"] = annotation
    return handle_order


Payload = TypeVar("Payload")
Aliased = TypeAliasType("Aliased", Message[Payload], type_params=(Payload,))


class Cat(BaseModel):
    kind: Literal["cat"]
    claws: int


class Dog(BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("payload_annotation", "valid", "invalid"),
    [
        (Annotated[int, Field(gt=0)], 5, -5),
        (Annotated[int, "a comment", Field(gt=0)], 5, -5),
        (Annotated[list[int], Field(min_length=1)], [1], []),
        (list[Annotated[int, Field(gt=0)]], [5], [5, -5]),
        (dict[str, Annotated[str, Field(pattern="^a")]], {"a": "ab"}, {"a": "b"}),
        (Annotated[int, Field(gt=0)] | None, None, -5),
        (Annotated[str, AfterValidator(reject)] | int, 1, "a"),
        (Annotated[str, StringConstraints(max_length=2)], "ab", "abc"),
        (Pet, {"kind": "dog"}, {"kind": "cat"}),
        (TypeAliasType("Positive", Annotated[int, Field(gt=0)]), 5, -5),
        (Order, {"number": "A-1", "lines": []}, {"number": "A-1"}),
        (Dated, {"number": "A-1"}, {}),
        (Strict, STRICT, {**STRICT, "pair": [1]}),
        (None, None, 1),
        (Literal["a"], "a", "b"),
    ],
)
def test_an_annotation_and_a_schema_decide_alike(payload_annotation: Any, valid: Any, invalid: Any) -> None:
    schema = type(None) if payload_annotation is None else payload_annotation
    message = Message[payload_annotation]
    for annotation in (message, Annotated[message, "a comment"], Aliased[payload_annotation]):
        from_annotation = payload_type(of(annotation))
        for check in (checker(schema), checker(from_annotation)):
            check(valid)
            with pytest.raises(InvalidPayloadError):
                check(invalid)


@pytest.mark.parametrize(
    "annotation",
    [
        *(Any, dict, dict[str, Any], Mapping[str, Any], MutableMapping, Message, Message[Any]),
        TypeAliasType("Untyped", Message),
    ],
)
def test_the_annotation_of_any_message_is_no_schema(annotation: Any) -> None:
    assert payload_type(of(annotation)) is None


class OwnMessage(Message[Order]):
    pass


@pytest.mark.parametrize(
    "annotation",
    [
        *(Order, Dated, Model, Annotated[Model, "a comment"], list[Model], int, object, None),
        *(OwnMessage, Message[Order] | None, Message[Order] | Message[Model]),
    ],
)
def test_an_annotation_that_is_not_of_a_message_is_an_error_with_the_right_form(annotation: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"^handle_order\(\) gets a message, which .* is not. Write message: Message\[Ord",
    ):
        payload_type(of(annotation))


@pytest.mark.parametrize("annotation", ["Message[Missing]", "Message[Order", "Message[Order, int]"])
def test_an_annotation_that_cannot_be_read_is_an_error_with_the_way_out(annotation: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^the annotation of message cannot be read: .*type checkers, or give schema="
    ):
        payload_type(of(annotation))
