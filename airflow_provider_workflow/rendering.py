"""Keeps templated strings strings, also with ``render_template_as_native_obj=True``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

Kinds = type | tuple[type, ...]
ABSENT = type(None)
ROUTED: Mapping[str, Kinds] = {
    "inbox": (),
    "trigger_dag_id": Mapping,
    "match": ABSENT,
    "dead_letter_dag_id": ABSENT,
}
"""``STRINGS`` of the classes that route the messages of an inbox."""


class RendersStrings:
    """
    Renders the templated strings of an operator to strings.

    With ``render_template_as_native_obj=True`` (of a DAG or a task) Airflow
    evaluates each rendered string as Python: the inbox ``20260101`` becomes a number, the expression
    ``'x'`` loses its quotes, and the string ``None`` becomes None; also without a template in it.
    """

    STRINGS: ClassVar[Mapping[str, Kinds]] = {}
    """Templated fields that are strings or collections of strings; other types that a template may yield."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Airflow calls this for tasks and mapped tasks, and allows overriding it (see MappedOperator).
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
    :param before: the argument before rendering.
    :param after: the argument after Airflow has rendered it.
    :param others: types that a template may yield instead of a string.
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
                " on the task"
            )
    return render(before)
