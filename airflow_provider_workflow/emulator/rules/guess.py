"""Guesses a workflow from a description, deterministically (docs/service.md 13)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from airflow_provider_workflow.emulator.rules.apps import APPS, GUESSED_APPS, App
from airflow_provider_workflow.emulator.rules.errors import ServiceError

VERBS = frozenset(
    (
        *("add", "alert", "archive", "assign", "back", "book", "capture", "collect", "connect", "copy"),
        *("create", "delete", "export", "forward", "if", "import", "invite", "log", "move", "notify"),
        *("post", "publish", "record", "remind", "reply", "save", "send", "share", "start", "sync"),
        *("tell", "track", "update", "upload", "when", "whenever"),
    )
)
"""Words by which a description of a workflow is recognized."""

TITLE_LENGTH = 80


def guess(description: Any, base_url: str) -> dict[str, Any]:
    """
    Guess a workflow: the apps that the description mentions, in its order; the first is the trigger.

    The word ``no-title`` stands for an app whose steps have the title null, the word ``no-alternatives``
    for one whose steps have no alternatives.

    :param base_url: base URL of the editor.
    :return: the body of the response.
    :raises ServiceError: 400 if the description describes no workflow.
    """
    if not isinstance(description, str) or not description.strip():
        raise rejected("description: this field is required and must be a string that is not blank.")
    words = re.findall(r"[a-z][a-z-]*", description.lower())
    apps = list(dict.fromkeys(app for word in words if (app := _app_of(word))))
    if not apps and not VERBS.intersection(words):
        raise rejected("The prompt does not describe a workflow: it names neither an app nor an action.")
    messages = []
    if len(apps) < 2:
        messages.append({"detail": "The prompt names fewer than two apps; the others were assumed."})
        apps = _filled_up(apps)
    steps = [_step(app, is_trigger=position == 0) for position, app in enumerate(apps)]
    answer = {"title": _title(description), "steps": steps, "prefilled_url": _editor_url(steps, base_url)}
    return {**answer, "messages": messages} if messages else answer


def rejected(detail: str) -> ServiceError:
    """400 for a description that describes no workflow (docs/service.md 13.2)."""
    return ServiceError(400, "invalid_guess", detail, body={"messages": [{"detail": detail}]})


def _app_of(word: str) -> App | None:
    return next((app for app in GUESSED_APPS if word.startswith(app.words)), None)


def _filled_up(apps: list[App]) -> list[App]:
    by_slug = {app.slug: app for app in APPS}
    if not apps:
        return [by_slug["webhook"], by_slug["mail"]]
    return [apps[0], by_slug["chat" if apps[0].slug != "chat" else "mail"]]


def _step(app: App, *, is_trigger: bool) -> dict[str, Any]:
    place = GUESSED_APPS.index(app)
    others = [APPS[(place + distance) % len(APPS)] for distance in range(1, app.alternatives + 1)]
    return {"step": _raw(app, is_trigger), "alternatives": [_raw(other, is_trigger) for other in others]}


def _raw(app: App, is_trigger: bool) -> dict[str, str | None]:
    return {"title": app.trigger if is_trigger else app.action, "app": app.name, "api": app.api}


def _title(description: str) -> str:
    text = " ".join(description.split()).rstrip(".!?")
    return (text[:1].upper() + text[1:])[:TITLE_LENGTH]


def _editor_url(steps: list[dict[str, Any]], base_url: str) -> str:
    return f"{base_url}/editor?" + urlencode([("step", each["step"]["api"]) for each in steps])
