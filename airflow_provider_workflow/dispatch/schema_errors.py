"""What is wrong with a payload, in words: for the errors of pydantic and for the keywords of JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_workflow.text import escaped

MAX_REASON = 100
TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}
"""The types of JSON Schema."""
KEYWORDS = {
    "required": "missing",
    "enum": "not one of the permitted values",
    "const": "not the permitted value",
    "minimum": "less than {}",
    "maximum": "greater than {}",
    "exclusiveMinimum": "not greater than {}",
    "exclusiveMaximum": "not less than {}",
    "multipleOf": "not a multiple of {}",
    "divisibleBy": "not a multiple of {}",
    "minLength": "shorter than {} character",
    "maxLength": "longer than {} character",
    "pattern": "does not match the pattern",
    "minItems": "fewer than {} item",
    "maxItems": "more than {} item",
    "uniqueItems": "has equal items",
    "contains": "has too few or too many items that match",
    "minProperties": "fewer than {} field",
    "maxProperties": "more than {} field",
    "propertyNames": "has a field whose name is not permitted",
    "additionalProperties": "has a field that is not in the schema",
    "unevaluatedProperties": "has a field that is not in the schema",
    "additionalItems": "has more items than the schema",
    "unevaluatedItems": "has more items than the schema",
    "dependentRequired": "lacks a field that another field requires",
    "dependencies": "lacks a field that another field requires",
    "anyOf": "fits none of the alternatives",
    "oneOf": "does not fit exactly one of the alternatives",
    "not": "fits what the schema excludes",
}
"""By keyword of JSON Schema; braces are its value, and a noun at the end is one that it counts."""
PYDANTIC = {
    "missing": "missing",
    "extra_forbidden": "not in the schema",
    "literal_error": "not one of the permitted values",
    "enum": "not one of the permitted values",
    "none_required": "not null",
    "greater_than": "not greater than {gt}",
    "greater_than_equal": "less than {ge}",
    "less_than": "not less than {lt}",
    "less_than_equal": "greater than {le}",
    "multiple_of": "not a multiple of {multiple_of}",
    "string_too_short": "shorter than {min_length} character",
    "string_too_long": "longer than {max_length} character",
    "string_pattern_mismatch": "does not match the pattern",
    "too_short": "fewer than {min_length} item",
    "too_long": "more than {max_length} item",
    "value_error": "rejected by a validator of the schema",
    "assertion_error": "rejected by a validator of the schema",
    "union_tag_not_found": "lacks the field that chooses the alternative",
    "union_tag_invalid": "fits none of the alternatives",
}
"""By code of pydantic; braces are limits of the schema, and a noun at the end is one that they count."""
NOT_OF_TYPE = {
    "a string": ("string_type", "string_unicode"),
    "a whole number": ("int_type", "int_parsing", "int_parsing_size", "int_from_float"),
    "a number": ("float_type", "float_parsing", "decimal_type", "decimal_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "an object": ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"),
    "a date": ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
    "a date and time": ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
    "a time": ("time_type", "time_parsing"),
    "a duration": ("time_delta_type", "time_delta_parsing"),
    "a UUID": ("uuid_type", "uuid_parsing", "uuid_version"),
    "a URL": ("url_type", "url_parsing", "url_syntax_violation", "url_scheme"),
}
"""The codes of pydantic for a value of another type."""
LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
"""What pydantic tells of the schema, not of the payload."""


def of_keyword(keyword: str | None, value: Any) -> str:
    """
    Why a payload does not fit a keyword of JSON Schema.

    :param keyword: None for the schema false.
    :param value: of the keyword in the schema.
    """
    if keyword == "type":
        names = value if isinstance(value, list) else [value]
        return "not " + " or ".join(TYPES.get(name, "of the type") for name in map(str, names))
    if keyword is None:
        return "not permitted"
    text = KEYWORDS.get(keyword, f"does not fit {keyword}").format(value)
    return escaped(_counting(text, value), MAX_REASON)


def of_pydantic(code: str, context: Mapping[str, Any]) -> str:
    """
    Why pydantic rejects a payload; for a rare error, or one that a validator made up, its code.

    :param context: of the error. It may have values of the payload, so only limits are read.
    """
    for name, codes in NOT_OF_TYPE.items():
        if code in codes:
            return f"not {name}"
    limits = {name: context.get(name) for name in LIMITS}
    text = PYDANTIC.get(code, code.replace("_", " ")).format(**limits)
    return escaped(_counting(text, context.get("min_length", context.get("max_length"))), MAX_REASON)


def _counting(text: str, number: Any) -> str:
    """A text that may end with the noun of a number: in the plural, unless the number is 1."""
    is_many = number not in (None, 1) and text.endswith(("character", "item", "field"))
    return f"{text}s" if is_many else text
