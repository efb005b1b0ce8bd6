"""Guesses workflows from descriptions, and lists templates, of made-up apps (docs/service.md 7 and 13)."""

from __future__ import annotations

import re
import uuid
from itertools import permutations
from typing import Any, NamedTuple
from urllib.parse import urlencode

from airflow_provider_workflow.emulator.rules.errors import ServiceError


class App(NamedTuple):
    """
    An app that workflows may use.

    :param trigger: title of its trigger step; None if it has no title.
    :param action: title of its action step; None if it has no title.
    :param words: prefixes of words in a description that stand for this app.
    :param alternatives: number of alternatives that a guess has for a step of this app.
    """

    name: str
    trigger: str | None
    action: str | None
    words: tuple[str, ...]
    alternatives: int = 2

    @property
    def slug(self) -> str:
        """For the ``apps`` filter of templates."""
        return self.name.lower()

    @property
    def api(self) -> str:
        """Identifier of its integration (docs/service.md 13.1)."""
        return f"{self.name.replace(' ', '')}API@1.0.0"


APPS = (
    App("Mail", "New Email", "Send Email", ("mail", "email", "e-mail")),
    App("Chat", "New Message", "Send Message", ("chat", "channel", "messag")),
    App("Spreadsheet", "New Row", "Add Row", ("spreadsheet", "sheet", "row")),
    App("Calendar", "New Event", "Create Event", ("calendar", "meeting", "event")),
    App("Form", "New Entry", "Create Form", ("form", "survey", "answer")),
    App("Shop", "New Order", "Create Order", ("shop", "order", "purchase", "product")),
    App("Payments", "New Payment", "Create Charge", ("pay", "charge", "refund")),
    App("Invoices", "New Invoice", "Create Invoice", ("invoice", "bill")),
    App("Contacts", "New Contact", "Create Contact", ("contact", "customer")),
    App("Tasks", "New Task", "Create Task", ("task", "todo", "ticket")),
    App("Files", "New File", "Upload File", ("file", "document", "folder", "photo")),
    App("Feed", "New Item", "Publish Post", ("feed", "blog", "rss", "article")),
    App("Schedule", "Every Day", "Delay", ("every", "daily", "schedule")),
    App("Webhook", "Catch Hook", "Send Request", ("webhook", "hook", "api", "request")),
)

NO_TITLE = App("No Title", None, None, ("no-title",))
"""For a description with this word a guess has a step whose title is null (docs/service.md 13.1)."""
NO_ALTERNATIVES = App("No Alternatives", "New Item", "Create Item", ("no-alternatives",), alternatives=0)
"""For a description with this word a guess has a step without alternatives (docs/service.md 13.1)."""
GUESSED_APPS = (*APPS, NO_TITLE, NO_ALTERNATIVES)
"""The apps of guesses; templates are only of ``APPS``."""

TITLE_LENGTH = 80
IMAGE_SIZES = (16, 32, 64, 128)
"""Pixels of the images of a template's step; assumed."""


def guess(description: Any, base_url: str) -> dict[str, Any]:
    """
    Guess a workflow: the apps that the description mentions, in its order; the first is the trigger.

    The words ``no-title`` and ``no-alternatives`` stand for apps whose steps have none.

    :param base_url: base URL of the editor.
    :return: the body of the response.
    :raises ServiceError: 400 if the description describes no workflow.
    """
    words = re.findall(r"[a-z][a-z-]*", description.lower()) if isinstance(description, str) else []
    apps = list(dict.fromkeys(app for word in words for app in GUESSED_APPS if word.startswith(app.words)))
    if not apps:
        detail = "The prompt does not describe a workflow: it names no app."
        raise ServiceError(400, "invalid_guess", detail, body={"messages": [{"detail": detail}]})
    messages = []
    if len(apps) < 2:
        messages = [{"detail": "The prompt names fewer than two apps; the others were assumed."}]
        apps = list(dict.fromkeys((*apps, *APPS)))[:2]
    text = " ".join(description.split()).rstrip(".!?")
    answer = {
        "title": (text[:1].upper() + text[1:])[:TITLE_LENGTH],
        "steps": [_step(app, "action" if number else "trigger") for number, app in enumerate(apps)],
        "prefilled_url": f"{base_url}/editor?{urlencode([('step', app.api) for app in apps])}",
    }
    return {**answer, "messages": messages} if messages else answer


def _step(app: App, kind: str) -> dict[str, Any]:
    step, *alternatives = (
        {"title": getattr(shown, kind), "app": shown.name, "api": shown.api}
        for shown in (app, *[other for other in APPS if other != app][: app.alternatives])
    )
    return {"step": step, "alternatives": alternatives}


DEFAULT_LIMIT = 5
MAX_LIMIT = 100
FIRST_ID = 1001


def templates(
    base_url: str, apps: list[str] | None = None, limit: int = DEFAULT_LIMIT, offset: int = 0
) -> list[dict[str, Any]]:
    """
    List templates; there is one for each ordered pair of apps.

    :param base_url: base URL of their pages.
    :param apps: slugs; only templates that use all of them (assumed). None or empty for all templates.
    :param limit: maximum number of templates, 1 to 100.
    :param offset: number of templates to skip, 0 or more.
    """
    pairs = [
        (number, trigger, action)
        for number, (trigger, action) in enumerate(permutations(APPS, 2), FIRST_ID)
        if {trigger.slug, action.slug} >= set(apps or [])
    ]
    return [_template(base_url, *pair) for pair in pairs[offset : offset + limit]]


def _template(base_url: str, number: int, trigger: App, action: App) -> dict[str, Any]:
    title = f"{action.action} in {action.name} for each {trigger.trigger} in {trigger.name}"
    slug = f"{trigger.slug}-to-{action.slug}-{number}"
    steps = [
        _template_step(base_url, number * 10 + 1, trigger, trigger.trigger),
        _template_step(base_url, number * 10 + 2, action, action.action),
    ]
    return {
        "id": number,
        "title": title,
        "slug": slug,
        "status": "published",
        **dict.fromkeys(("description", "description_plain", "description_raw"), f"{title}."),
        "url": f"{base_url}/templates/{slug}",
        "create_url": f"{base_url}/editor?template={number}",
        "type": "template",
        "steps": steps,
    }


def _template_step(base_url: str, step_id: int, app: App, label: str | None) -> dict[str, Any]:
    image = f"{base_url}/images/{app.slug}.png"
    return {
        "id": step_id,
        "uuid": str(uuid.UUID(int=step_id)),
        "title": app.name,
        "slug": app.slug,
        "description": f"{app.name} is a made-up app.",
        "image": image,
        "images": {f"url_{size}x{size}": image for size in IMAGE_SIZES},
        "hex_color": "4a6fa5",
        "api": app.api,
        "url": f"{base_url}/apps/{app.slug}",
        "label": label,
    }
