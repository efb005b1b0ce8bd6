"""Which DAG a message is for: one DAG, a filter, or several DAGs chosen by JMESPath expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.dispatch.cpu_limit import CheckTooSlowError, limited
from airflow_provider_workflow.text import counted, escaped

if TYPE_CHECKING:
    from jmespath.exceptions import ParseError
    from jmespath.parser import ParsedResult
    from jmespath.visitor import TreeInterpreter

Content = Mapping[str, Any]
Matcher = Callable[[Content], bool]
"""Whether an expression is true for a message."""

FIELDS = ("id", "created_at", "payload", "message_attributes")
TRACE_CONTEXT = re.compile(
    "((?!ff|00.{53}-)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(?:-.*)?"
)
"""The header ``traceparent`` of W3C's Trace Context: four fields, and more in versions above 00."""
ORDERINGS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
COMPARATORS = {"eq", "ne", *ORDERINGS}
TEXTS = ("id", "created_at")
"""Fields of a message that are text, whatever the sender writes."""
DIGITS = re.compile(r"\s*-?\d+(\.\d+)?\s*")
MAX_EXPRESSION = 200
"""Characters of an expression in an error of a message."""
CONSTANTS = {
    **{name: name for name in ("true", "false", "null")},
    **{"True": "true", "False": "false", "None": "null"},
}
"""How the constants that are written as names are written in JMESPath."""
WRITTEN_ELSEWHERE = {
    **{"and": "&&", "&": "&&", "or": "||", "not": "!(...)"},
    **{"=": "==", "is": "==", "in": "contains(list, value)"},
}
"""How JMESPath writes what Python and SQL write otherwise."""
FIRST_ON_MESSAGE = {
    "subexpression",
    "index_expression",
    "projection",
    "value_projection",
    "filter_projection",
    "pipe",
}
"""Nodes that evaluate their first child on what they get, and the others on its result."""


def matcher(field: str, expression: str) -> Matcher:
    """
    Compile a JMESPath expression over a message: ``id``, ``created_at``, ``payload``, ``message_attributes``.

    Truth is that of JMESPath: null, false, and empty strings, lists and objects are false; 0 is true.

    :param field: name of the expression in the error.
    :raises ValueError: the expression is not valid, or can never be true; the text names the fix.
    """
    value_of = _searcher(field, expression)

    def matches(message: Content) -> bool:
        value = value_of(message)
        return not (value is None or value is False or value in ("", [], {}))

    return matches


def _searcher(field: str, expression: str) -> Callable[[Content], Any]:
    """
    Compile a JMESPath expression whose value is wanted; see ``matcher`` for the rest.

    :return: a function that raises ``UnroutableError`` for a message that the expression fails on, and
        ``CheckTooSlowError`` for one on which it takes too long.
    """

    compiled, interpreter = _compile(field, expression), _interpreter()

    def value_of(message: Content) -> Any:
        try:
            return limited(field, partial(interpreter.visit, compiled.parsed), message)
        except CheckTooSlowError:
            raise
        except Exception as error:
            # Some values fail inside the library with built-in exceptions (a slice of step 0, a payload too
            # deep for to_string); these are errors of this one message as well.
            reason = error if isinstance(error, UnroutableError) else _without_values(error)
            source = f"{field} ({escaped(expression, MAX_EXPRESSION)})"
            raise UnroutableError(f"{source} cannot be evaluated on it: {reason}") from None

    return value_of


def _interpreter() -> TreeInterpreter:
    """Evaluates as ``jmespath.search`` does, but its error of a comparison names the types."""
    from jmespath.functions import TYPES_MAP
    from jmespath.visitor import TreeInterpreter

    class Interpreter(TreeInterpreter):
        def visit_comparator(self, node: Any, value: Any) -> Any:
            try:
                return super().visit_comparator(node, value)
            except TypeError:
                operands = (self.visit(child, value) for child in node["children"])
                kinds = " and ".join(TYPES_MAP[type(operand).__name__] for operand in operands)
                raise UnroutableError(
                    f"{ORDERINGS[node['value']]} compares two numbers or two strings, and was given {kinds};"
                    " convert one first, by to_number() or to_string()"
                ) from None

    return Interpreter()


def _compile(field: str, expression: str) -> ParsedResult:
    import jmespath
    from jmespath.exceptions import JMESPathError, ParseError

    if not isinstance(expression, str):
        raise ValueError(f"{field} must be a JMESPath expression, not {expression!r}")
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        fix = _fix_of(error, expression) if isinstance(error, ParseError) else ""
        raise ValueError(f"{field} is no valid JMESPath expression: {error}{fix}") from None
    # None is a fault for JMESPath: what does not exist, or cannot be compared, is null.
    whole = {"type": "expression", "children": [compiled.parsed]}
    faults = [
        *_constants_written_as_fields(expression),
        *_unknown_fields(whole),
        *_impossible_calls(whole),
        *_fields_of_truth(whole),
        *_impossible_comparisons(whole),
    ]
    if faults:
        raise ValueError(f"{field} {faults[0]}")
    return compiled


def _fix_of(error: ParseError, expression: str) -> str:
    """The fix of what other languages write, on a line of its own; "" for another error."""
    before, token = expression[: error.lex_position], str(error.token_value)
    if error.token_type == "NUMBER" and (number := DIGITS.match(expression, error.lex_position)):  # noqa: S105
        numeral = number[0].strip()
        return f"\nWrite the number in backticks, `{numeral}`; a field that begins with it in double quotes"
    for word in (*before.split()[-1:], token):
        if (ours := WRITTEN_ELSEWHERE.get(word.lower())) is not None:
            return f"\nWrite {ours} for {word.lower()}"
    if before.endswith("[") and error.token_type in ("LITERAL", "QUOTED_IDENTIFIER"):
        return f"\nWrite a field after a dot, as payload.{token}"
    if token in ("-", "$"):
        return '\nWrite a name with other signs in double quotes, as payload."order-id"'
    return ""


def _constants_written_as_fields(expression: str) -> Iterator[str]:
    from jmespath.lexer import Lexer

    for before, token in pairwise(Lexer().tokenize(expression)):
        value = token["value"]
        if before["type"] not in COMPARATORS:
            continue
        if token["type"] == "quoted_identifier":
            yield (
                f"compares with the field \"{value}\". A text stands in single quotes, '{value}'; a field at"
                f' the left, or as @."{value}"'
            )
        elif token["type"] == "unquoted_identifier" and value in CONSTANTS:
            yield f"compares with the field {value}. Write `{CONSTANTS[value]}`, in backticks"


def _unknown_fields(node: Mapping[str, Any], of_message: bool = True) -> Iterator[str]:
    """
    Fields that no message has.

    :param node: of the parsed expression.
    :param of_message: whether the node is evaluated on the message, not on a part of it.
    """
    kind, value = node["type"], node.get("value")
    if kind == "field" and of_message and value not in FIELDS:
        yield (
            f"reads {value!r}, which is no field of a message: those are {', '.join(FIELDS[:-1])} and"
            f" {FIELDS[-1]}. A field of the payload is payload.{value}, a text stands in single quotes"
        )
    for position, child in enumerate(node.get("children", ())):
        # Not a position, nor the bounds of a slice.
        if isinstance(child, Mapping):
            if child["type"] == "expref" and kind != "function_expression":
                yield "has an & outside of the arguments of a function"
            on_part = kind == "expref" or (kind in FIRST_ON_MESSAGE and position > 0)
            yield from _unknown_fields(child, of_message and not on_part)


def _children(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The nodes below a node; not a position, nor the bounds of a slice."""
    return [child for child in node.get("children", ()) if isinstance(child, Mapping)]


def _impossible_calls(node: Mapping[str, Any]) -> Iterator[str]:
    """Functions that JMESPath does not have, and calls with arguments that they never take."""
    from jmespath.functions import TYPES_MAP, Functions

    name, arguments = node.get("value"), _children(node)
    if node["type"] == "function_expression" and name not in Functions.FUNCTION_TABLE:
        yield f"calls {name}(), which JMESPath does not have"
    elif node["type"] == "function_expression":
        taken = Functions.FUNCTION_TABLE[name]["signature"]
        is_open = bool(taken[-1].get("variadic"))
        if len(arguments) < len(taken) or (len(arguments) > len(taken) and not is_open):
            more = " or more" if is_open else ""
            count_text = counted(len(arguments), "argument")
            yield f"calls {name}() with {count_text}, and it takes {len(taken)}{more}"
        for argument, types in zip(arguments, (part["types"] for part in taken), strict=False):
            if argument["type"] != "literal" or not types:
                continue
            value = argument["value"]
            if TYPES_MAP[type(value).__name__] not in {kind.partition("-")[0] for kind in types}:
                yield f"calls {name}() with {json.dumps(value)}, and it takes {' or '.join(types)} there"
    for child in arguments:
        yield from _impossible_calls(child)


def _fields_of_truth(node: Mapping[str, Any]) -> Iterator[str]:
    """What reads a field of ``true`` or ``false``: ``!payload.a`` is ``(!payload).a``."""
    first, *others = _children(node) or [node]
    if node["type"] in ("subexpression", "index_expression") and first["type"] == "not_expression":
        (negated,) = first["children"]
        name = f"!{negated['value']}" if negated["type"] == "field" else "a negation"
        yield f"reads a field of {name}, which has none. Write !(...) around the whole"
    is_truth = first["type"] in ("comparator", "not_expression")
    if node["type"] == "pipe" and is_truth and "'current'" not in str(others):
        yield "passes a comparison on by |, and it has no fields. Write || for or"
    for child in _children(node):
        yield from _fields_of_truth(child)


def _impossible_comparisons(node: Mapping[str, Any]) -> Iterator[str]:
    """Comparisons by order with a constant that is no number, and with a number that is written as a text."""
    children = _children(node)
    if node["type"] == "comparator" and node["value"] in ORDERINGS:
        sign = ORDERINGS[node["value"]]
        for constant, other in (children, children[::-1]):
            value = constant.get("value")
            if constant["type"] != "literal":
                continue
            if value is None or isinstance(value, (bool, list, dict)):
                yield f"compares with {json.dumps(value)} by {sign}, which is never true: give a number"
            elif isinstance(value, str) and DIGITS.fullmatch(value) and other.get("value") not in TEXTS:
                yield (
                    f"compares with the text '{value}' by {sign}. Write the number, `{value.strip()}`, in"
                    " backticks; to_number() makes a number of a text"
                )
    for child in children:
        yield from _impossible_comparisons(child)


def _without_values(error: Exception) -> str:
    """Why an expression fails, without the value, which JMESPath quotes."""
    from jmespath.exceptions import JMESPathTypeError

    if isinstance(error, JMESPathTypeError):
        types = " or ".join(map(str, error.expected_types))
        text = f"{error.function_name}() takes {types}, and was given {escaped(str(error.actual_type))}"
        is_digits = error.actual_type == "string" and "number" in error.expected_types
        return f"{text}; convert it first, by to_number()" if is_digits else text
    return type(error).__name__


class UnroutableError(ValueError):
    """An expression cannot be evaluated on this one message."""


class Routes:
    """
    Chooses the DAG of a message.

    :param targets: the DAG id for all messages, or DAG ids with a JMESPath expression each, of which the
        first that is true decides; None if messages start no runs.
    :param match: JMESPath expression; messages for which it is false are unmatched.
    :param once_per: JMESPath expression whose value is the business key of a message.
    :param trace_context: JMESPath expression whose value is the trace context of a message.
    :raises ValueError: an expression is not valid, or there is no DAG id.
    """

    dag_ids: list[str]
    """All DAGs that a message may start a run of."""
    has_keys: bool
    """Whether messages may have a business key."""

    def __init__(
        self,
        targets: str | Mapping[str, str] | None,
        match: str | None = None,
        once_per: str | None = None,
        trace_context: str | None = None,
    ) -> None:
        self._match = None if match is None else matcher("match", match)
        self._once_per = once_per
        self.has_keys = once_per is not None
        self._key = None if once_per is None else _searcher("once_per", once_per)
        if once_per is not None and "'field'" not in str(_compile("once_per", once_per).parsed):
            raise ValueError(
                f"once_per ({once_per}) reads no field of the message."
                " Name the one with the key, as payload.order_id"
            )
        self._trace_context = None
        if trace_context is not None:
            self._trace_context = _searcher("trace_context", trace_context)
        self._targets: list[tuple[str, Matcher | None]] = []
        if isinstance(targets, Mapping):
            last = ""  # the DAG of a constant that is always true
            for dag_id, expression in targets.items():
                field = f"trigger_dag_id[{dag_id!r}]"
                if last:
                    raise ValueError(f"{field} is never reached: the expression of {last!r} is always true")
                self._targets.append((dag_id, matcher(field, expression)))
                parsed = _compile(field, expression).parsed
                last = dag_id if parsed["type"] == "literal" and parsed["value"] else ""
        elif targets is not None:
            self._targets.append((targets, None))
        if targets is not None and not all(dag_id for dag_id, _ in self._targets or [("", None)]):
            raise ValueError("trigger_dag_id must name at least one DAG")
        self.dag_ids = [dag_id for dag_id, _ in self._targets]

    def accepts(self, message: Content) -> bool:
        """
        Whether ``match`` is true for the message.

        :raises UnroutableError: ``match`` cannot be evaluated on it.
        :raises CheckTooSlowError: that takes too long.
        """
        return self._match is None or self._match(message)

    def key(self, message: Content) -> list[Any] | None:
        """
        The expression and the business key of a message: a changed expression gives new keys.

        None if it has none, an empty one, or one of several parts (a list or an object) with an empty part:
        messages that lack the same part are not the same. Whole numbers are integers (7.0 is 7).

        :raises UnroutableError: ``once_per`` cannot be evaluated on it.
        :raises CheckTooSlowError: that takes too long.
        """
        key = tolerant_json.with_whole_numbers(self._key(message)) if self._key else None
        parts = key.values() if isinstance(key, dict) else key if isinstance(key, list) else ()
        return None if _is_empty(key) or any(map(_is_empty, parts)) else [self._once_per, key]

    def trace_context(self, message: Content) -> str | None:
        """
        The trace context of a message, in W3C's form.

        None if it has none, a malformed one, or one that takes too long to find.
        """
        context = None
        with suppress(UnroutableError, CheckTooSlowError):
            context = self._trace_context(message) if self._trace_context else None
        known = TRACE_CONTEXT.fullmatch(context) if isinstance(context, str) else None
        return known and known[1]

    def target(self, message: Content) -> str | None:
        """
        The DAG of the message; None if it is unmatched.

        :raises UnroutableError: an expression cannot be evaluated on it.
        :raises CheckTooSlowError: that takes too long.
        """
        if not self.accepts(message):
            return None
        for dag_id, matches in self._targets:
            if matches is None or matches(message):
                return dag_id
        return None


def _is_empty(value: Any) -> bool:
    """
    Whether a value of ``once_per`` is null, false, a blank text, or a list or an object of nothing else.

    The text "null", which ``to_string`` makes of null, is empty too. 0 is not.
    """
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, (dict, list)):
            parts.extend(part.values() if isinstance(part, dict) else part)
        elif isinstance(part, str):
            if part.strip() and part != "null":
                return False
        elif part is not None and part is not False:
            return False
    return True
