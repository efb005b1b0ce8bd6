"""JSON Schemas: which draft one is of, and the faults that its meta-schema does not find."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jsonschema import validators
from jsonschema.exceptions import SchemaError
from jsonschema_specifications import REGISTRY
from referencing import Resource
from referencing.jsonschema import specification_with

DRAFTS = {
    kind.ID_OF(kind.META_SCHEMA): kind
    for kind in (
        validators.Draft3Validator,
        validators.Draft4Validator,
        validators.Draft6Validator,
        validators.Draft7Validator,
        validators.Draft201909Validator,
        validators.Draft202012Validator,
    )
}
"""The validators of all drafts by the address that ``$schema`` has, the newest last."""
REFERENCES = {"$ref", "$dynamicRef", "$recursiveRef"}
OF_IF = {"then", "else"}
"""Keywords that the validator of ``if`` evaluates."""
OF_THE_WHOLE = {
    *("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "extends"),
    *OF_IF,
}
"""Keywords whose schemas apply to the value itself, not to a part of it."""


def validator_of(schema: Mapping[str, Any]) -> Any:
    """
    The validator of a JSON Schema. It fetches nothing.

    A keyword that looks misspelled, or that only another draft has, is a warning.

    :raises ValueError: it is no JSON Schema, or no payload can be checked against it; the text names the fix.
    """
    draft = _draft_of(schema)
    try:
        draft.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"schema is no valid JSON Schema: {error.json_path}: {error.message}") from None
    parts = _check_references(schema, draft)
    _warn_of_ignored({keyword for part in parts for keyword in part}, draft)
    return draft(schema, registry=REGISTRY)  # without it, addresses in a $ref are fetched


def _draft_of(schema: Mapping[str, Any]) -> Any:
    """
    The validator class of the draft that ``$schema`` names; that of the newest draft without it.

    :raises ValueError: it names no draft.
    """
    newest = [*DRAFTS][-1]
    name = schema.get("$schema", newest)
    draft = validators.validator_for({"$schema": name}, default=None) if isinstance(name, str) else None
    if draft is None:
        near = get_close_matches(str(name), DRAFTS, n=1, cutoff=0.9)
        fix = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(DRAFTS)}"
        raise ValueError(f"schema has an unknown $schema: {name!r}. {fix}")
    return draft


def _check_references(schema: Mapping[str, Any], draft: Any) -> list[Mapping[str, Any]]:
    """
    Check where the references of a schema lead, and the drafts of its parts.

    :return: the schema, those within it, and those that its references lead to.
    :raises ValueError: a part cannot be used.
    """
    specification = specification_with(draft.ID_OF(draft.META_SCHEMA))
    root = specification.create_resource(schema)
    parts = [*_parts_of(root, _resolver_of(root))]
    checked = {id(part) for part, _ in parts}
    applied: dict[int, set[int]] = {}
    """By schema: those that apply to the same value."""
    links: dict[int, str] = {}
    for part, resolver in parts:  # the list grows by what references lead to
        _draft_of(part)
        applied[id(part)] = {id(inner) for inner in _applied_to_the_whole(part)}
        for keyword in REFERENCES & draft.VALIDATORS.keys() & part.keys():
            links[id(part)] = link = f"{keyword}: {part[keyword]!r}"
            try:
                target = resolver.lookup(part[keyword])
                if id(target.contents) not in checked:
                    draft.check_schema(target.contents)
                    within = Resource.from_contents(target.contents, default_specification=specification)
                    parts += (more := [*_parts_of(within, target.resolver)])
                    checked |= {id(target.contents), *(id(inner) for inner, _ in more)}
            except Exception:  # also what a malformed address raises
                text = f"schema has a reference that leads to no schema ({link}); define it under $defs"
                raise ValueError(text) from None
            applied[id(part)].add(id(target.contents))
    try:
        TopologicalSorter(applied).prepare()
    except CycleError as error:
        link = next(links[part] for part in error.args[1] if part in links)
        raise ValueError(
            f"schema has a reference that leads back to itself ({link}), so that its check has no end. Let"
            " it stand under a keyword for a part of the value, such as properties or items"
        ) from None
    return [part for part, _ in parts]


def _resolver_of(root: Resource[Any]) -> Any:
    """
    What looks up the references of a schema.

    :raises ValueError: a part of the schema has an old form, in which they cannot be looked up.
    """
    address = root.id() or ""
    try:
        return REGISTRY.with_resource(address, root).crawl().resolver(address)
    except AttributeError:
        raise ValueError(
            "schema has extends or dependencies in a form that references cannot be looked up in: give"
            ' extends a list of schemas, and dependencies {"required": ["a"]} instead of ["a"]'
        ) from None


def _parts_of(root: Resource[Any], resolver: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """A schema and those within it, but for true and false, each with what resolves its references."""
    unread = [(root, resolver)]
    while unread:
        part, resolver = unread.pop()
        if isinstance(part.contents, bool):
            continue
        yield part.contents, resolver
        unread += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


def _applied_to_the_whole(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas within a schema that apply to the same value as it does."""
    for keyword in OF_THE_WHOLE & schema.keys():
        value = schema[keyword]
        if isinstance(value, Mapping) and keyword in ("dependentSchemas", "dependencies"):
            yield from value.values()
        elif isinstance(value, list):
            yield from value
        else:
            yield value


def _known_keywords(draft: Any) -> set[str]:
    """All keywords of a draft; where vocabularies define them, without those of the drafts before."""
    address = draft.ID_OF(draft.META_SCHEMA)
    resolver = REGISTRY.resolver(address)
    vocabularies = [resolver.lookup(part["$ref"]).contents for part in draft.META_SCHEMA.get("allOf", ())]
    metas = vocabularies or [draft.META_SCHEMA]
    return {*draft.VALIDATORS, *OF_IF, *(name for meta in metas for name in meta["properties"])}


def _warn_of_ignored(keywords: Iterable[str], draft: Any) -> None:
    elsewhere = {keyword for other in DRAFTS.values() for keyword in other.VALIDATORS}
    for keyword in sorted(map(str, {*keywords} - _known_keywords(draft))):
        near = get_close_matches(keyword, {*draft.VALIDATORS, *OF_IF}, n=1, cutoff=0.75)
        if keyword in elsewhere:
            fix = "only another draft has it, which $schema must name"
        elif near and not keyword.startswith("x-"):
            fix = f"did you mean {near[0]!r}?"
        else:
            continue
        warnings.warn(f"schema has the keyword {keyword!r}, which has no effect: {fix}", stacklevel=2)
