"""Templated strings stay strings, also where ``render_template_as_native_obj=True`` makes objects of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

Kinds = type | tuple[type, ...]
ABSENT = type(None)
ROUTED: Mapping[str, Kinds] = {"inbox": (), "trigger_dag_id": Mapping, "match": ABSENT}
"""The strings of whatever routes the messages of an inbox."""


class RendersStrings:
    """
    Keeps the templated strings of an operator what they are.

    A DAG (and from Airflow 3.2 on a task) with ``render_template_as_native_obj=True`` takes each rendered
    string for Python: the inbox ``20260101`` becomes a number, the expression ``'x'`` loses its quotes, and
    ``None`` is nothing. It does so with strings that have no template in them as well.
    """

    STRINGS: ClassVar[Mapping[str, Kinds]] = {}
    """Templated fields that hold strings, or collections of strings, and what else a template may yield."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # What Airflow calls for a task and for a mapped one, and means to be overridden (see MappedOperator).
        given = {name: getattr(parent, name, None) for name in self.STRINGS} if parent is self else {}
        super()._do_render_template_fields(  # type: ignore[misc]
            parent, template_fields, context, jinja_env, seen_oids
        )
        if not given or not _renders_natively(self):
            return
        environment = self.get_dag().get_template_env(force_sandboxed=True)  # type: ignore[attr-defined]

        def render(template: str) -> str:
            return str(environment.from_string(template).render(context))

        for name, before in given.items():
            setattr(self, name, _as_string(name, before, getattr(self, name), self.STRINGS[name], render))


def _renders_natively(operator: Any) -> bool:
    own = getattr(operator, "render_template_as_native_obj", None)
    dag = operator.get_dag()
    return dag is not None and bool(dag.render_template_as_native_obj if own is None else own)


def _as_string(field: str, before: Any, after: Any, others: Kinds, render: Callable[[str], str]) -> Any:
    """
    :param before: what the operator was given.
    :param after: what Airflow made of it.
    :param others: what a template may yield instead of a string.
    :raises ValueError: a template yields something else.
    """
    if isinstance(before, Mapping):
        return {
            key: _as_string(f"{field}[{key!r}]", each, after[key], (), render) for key, each in before.items()
        }
    if isinstance(before, (list, tuple)):
        return [_as_string(field, *pair, (), render) for pair in zip(before, after, strict=True)]
    if not isinstance(before, str):
        return after
    if "{{" in before or "{%" in before:
        if isinstance(after, others):
            return after
        if after is None or isinstance(after, (Mapping, list, tuple, set)):
            what = "None" if after is None else f"a {type(after).__name__}"
            raise ValueError(
                f"{field} was rendered to {what}, not to a string, as render_template_as_native_obj is True."
                " Give a template that yields a string, or render_template_as_native_obj=False"
                " (on the task from Airflow 3.2 on, else on the DAG)"
            )
    return render(before)
