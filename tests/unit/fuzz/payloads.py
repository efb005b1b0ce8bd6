"""Messages as hostile as JSON allows, and what an equal JSON value is."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

try:
    from airflow.api_fastapi.core_api.datamodels.common import check_conf_reserved_keys
except ImportError:
    check_conf_reserved_keys = None

TEMPLATES = (
    "{{ ti.xcom_pull() }}",
    "{{ 7 * 7 }}",
    "{% raw %}{{ x }}{% endraw %}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{% endfor %}",
    "{{",
    "{#",
    "{% include '/etc/passwd' %}",
    "script.sh",
    "query.sql",
    "{{ conn.workflow_default.password }}",
    "${HOME}",
    "%(name)s %s {0}",
)
"""What a template engine, or whoever takes a text for a file with a template, would act upon."""

MARKS = ("__type", "__var", "__classname__", "__data__", "__id__", "__version__", "__cls__", "__dag")
CLASSES = (
    *("builtins.set", "builtins.tuple", "datetime.datetime", "datetime", "dict", "no.such.Class", ""),
    *("airflow.sdk.definitions.connection.Connection", "airflow.models.dag.DAG"),
)
"""Names that Airflow's serializers look up when they find such a mark."""

HOSTILE_NAMES = (
    *("", " ", ".", "..", "...", "../", "../../v2/guess", "..%2f..%2f", "%2e%2e", "%2e%2e%2f", "/", "//"),
    *("//evil.example.com", "a/b", "a/../b", "a%2fb", "a?b=c", "a?b#c", "a#b", "a&b=c", "a;b", "a=b", "a+b"),
    *("a b", " a", "a ", "A", "a", "a:b", "a~b", "a..b", "--help", "{{ ti }}", "null", "__classname__"),
    *("%", "%%", "%00", "%zz", "%E9", "\0", "\n", "a\r\nX-Injected: yes", "\t", "\\", "..\\..\\", "\x7f"),
    *("\x80", "\xe9", "e\u0301", "\u2028", "\u202e", "\U0001f600", "\ud800", "a\udfff", "\u0661\u0662", "@"),
    *("user:pw@evil.example.com", "http://evil.example.com/", ":80", "[::1]", "x" * 100, "x" * 5000),
    *("é" * 1000, "~", "*", "!", "'", '"', "<script>", "{}", "|", "^", "`", "messages", "lease"),
    *("workflow__", "manual__2026-01-01T00:00:00+00:00", "x" * 240, "x" * 241, "&"),
)
"""Names and ids that mean something else in an address, a log or a run id."""

ODD_TEXTS = (
    *("", "\0", "\ud800", "\udfff\ud800", "\u2028", "\ufeff", "\U0001f600"),
    *("e\u0301", "null", "NaN", "1e999"),
)
ANY_TEXT = (
    st.sampled_from(TEMPLATES + ODD_TEXTS)
    | st.text(max_size=20)
    | st.text(st.characters(codec=None, categories=("Cs", "Cc", "Co", "Cn", "L")), max_size=10)
    | st.builds(
        lambda text, times: text * times, st.text(min_size=1, max_size=3), st.sampled_from((1000, 50_000))
    )
)
EDGES = tuple(
    sign * 2**power + offset for power in (31, 53, 63, 64, 70) for offset in (-1, 0, 1) for sign in (1, -1)
)
ANY_NUMBER = (
    st.integers()
    | st.sampled_from(EDGES)
    | st.floats(allow_nan=False)
    | st.sampled_from((0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.0**64, 1e16, 0.1))
)
ANY_SCALAR = st.none() | st.booleans() | ANY_NUMBER | ANY_TEXT
ANY_KEY = st.sampled_from(MARKS + TEMPLATES + ("", "id", "payload", "\0", "\ud800")) | st.text(max_size=8)


def _deep(value: Any, levels: int, key: str | None) -> Any:
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


_SHALLOW = st.recursive(
    ANY_SCALAR,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(ANY_KEY, inner, max_size=4)
        | st.builds(
            lambda mark, name, key, value: {mark: name, key: value, "__version__": 1},
            *map(st.sampled_from, (MARKS, CLASSES, MARKS)),
            inner,
        )
    ),
    max_leaves=12,
)
DEPTHS = st.integers(0, 3) | st.integers(90, 200) | st.sampled_from((140, 145, 146, 147, 148, 149, 150, 1000))
ANY_PAYLOAD = _SHALLOW | st.builds(_deep, _SHALLOW, DEPTHS, st.none() | ANY_KEY)
"""Any JSON value as Python decodes it: also those that JSON's grammar has and no database holds."""


def same(one: Any, other: Any) -> bool:
    """
    Whether two values are the same JSON value; walks without recursion.

    To Python True is 1. 1 and 1.0 are one number in JSON.
    """
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif not _same_scalar(left, right):
            return False
    return True


def _same_scalar(left: Any, right: Any) -> bool:
    numbers = (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, numbers) and isinstance(right, numbers):
        return left == right
    return type(left) is type(right) and bool(left == right)


def too_much(value: Any, deepest: int) -> bool:
    """
    Whether some database of this Airflow does not hold a JSON value, by what was measured: depth, integers of
    more than 64 bits, floats that are not finite or as large as those integers, lone surrogates, NUL
    characters, and from 3.4 on keys of its own serialization.
    """
    items = [(value, 1)]
    while items:
        item, depth = items.pop()
        if depth > deepest:
            return True
        if isinstance(item, dict) and _is_rejected(item):
            return True
        if isinstance(item, (dict, list)):
            parts = [*item, *item.values()] if isinstance(item, dict) else item
            items += [(part, depth + 1) for part in parts]
        elif _unholdable(item):
            return True
    return False


def _is_rejected(item: dict[str, Any]) -> bool:
    """Whether the API server rejects the keys of an object in a conf."""
    if check_conf_reserved_keys is None:
        return False
    try:
        check_conf_reserved_keys(dict.fromkeys(item), root="conf")
    except ValueError:
        return True
    return False


def _unholdable(item: Any) -> bool:
    if isinstance(item, str):
        return any(0xD800 <= ord(sign) <= 0xDFFF or sign == "\0" for sign in item)
    if isinstance(item, float):
        return not (math.isfinite(item) and abs(item) < 2**64)
    return isinstance(item, int) and not -(2**63) <= item < 2**64
