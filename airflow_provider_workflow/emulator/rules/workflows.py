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

    :param name: display name.
    :param slug: for the ``apps`` filter of templates.
    :param trigger: title of its trigger step, or None.
    :param action: title of its action step, or None.
    :param words: prefixes of words in a description that stand for this app.
    :param alternatives: number of alternatives in a guess for a step of this app.
    """

    name: str
    slug: str
    trigger: str | None
    action: str | None
    words: tuple[str, ...]
    alternatives: int = 2

    @property
    def api(self) -> str:
        """Identifier of its integration (docs/service.md 13.1)."""
        return "".join(part.capitalize() for part in self.slug.split("-")) + "API@1.0.0"


APPS = (
    App("Mail", "mail", "New Email", "Send Email", ("mail", "email", "e-mail", "inbox", "newsletter")),
    App(
        "Chat", "chat", "New Message", "Send Message", ("chat", "channel", "messag", "notif", "alert", "tell")
    ),
    App("Spreadsheet", "spreadsheet", "New Row", "Add Row", ("spreadsheet", "sheet", "row", "table")),
    App("Calendar", "calendar", "New Event", "Create Event", ("calendar", "meeting", "event", "appointment")),
    App("Form", "form", "New Entry", "Create Form", ("form", "survey", "submission", "answer")),
    App("Shop", "shop", "New Order", "Create Order", ("shop", "order", "purchase", "product", "cart")),
    App("Payments", "payments", "New Payment", "Create Charge", ("pay", "charge", "refund")),
    App("Invoices", "invoices", "New Invoice", "Create Invoice", ("invoice", "bill")),
    App(
        "Contacts",
        "contacts",
        "New Contact",
        "Create Contact",
        ("contact", "lead", "customer", "crm", "deal"),
    ),
    App(
        "Tasks", "tasks", "New Task", "Create Task", ("task", "todo", "to-do", "ticket", "issue", "reminder")
    ),
    App("Files", "files", "New File", "Upload File", ("file", "document", "folder", "attachment", "photo")),
    App("Feed", "feed", "New Item", "Publish Post", ("feed", "blog", "rss", "article")),
    App("Schedule", "schedule", "Every Day", "Delay", ("every", "daily", "weekly", "hourly", "schedule")),
    App("Webhook", "webhook", "Catch Hook", "Send Request", ("webhook", "hook", "api", "request")),
)

NO_TITLE = App("No Title", "no-title", None, None, ("no-title",))
"""For a description with this word a guess has a step whose title is null (docs/service.md 13.1)."""

NO_ALTERNATIVES = App(
    "No Alternatives", "no-alternatives", "New Item", "Create Item", ("no-alternatives",), alternatives=0
)
"""For a description with this word a guess has a step without alternatives (docs/service.md 13.1)."""

GUESSED_APPS = (*APPS, NO_TITLE, NO_ALTERNATIVES)
"""The apps of guesses; templates use only ``APPS``."""


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
    nearby = [APPS[(place + distance) % len(APPS)] for distance in range(1, app.alternatives + 1)]
    return {"step": _raw(app, is_trigger), "alternatives": [_raw(item, is_trigger) for item in nearby]}


def _raw(app: App, is_trigger: bool) -> dict[str, str | None]:
    return {"title": app.trigger if is_trigger else app.action, "app": app.name, "api": app.api}


def _title(description: str) -> str:
    text = " ".join(description.split()).rstrip(".!?")
    return (text[:1].upper() + text[1:])[:TITLE_LENGTH]


def _editor_url(steps: list[dict[str, Any]], base_url: str) -> str:
    return f"{base_url}/editor?" + urlencode([("step", step["step"]["api"]) for step in steps])


DEFAULT_LIMIT = 5
MAX_LIMIT = 100
FIRST_ID = 1001
NAMESPACE = uuid.UUID(int=0)
IMAGE_SIZES = (16, 32, 64, 128)
"""Pixels (assumed)."""


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
    slugs = set(apps or [])
    pairs = [
        (FIRST_ID + number, trigger, action)
        for number, (trigger, action) in enumerate(permutations(APPS, 2))
        if slugs <= {trigger.slug, action.slug}
    ]
    return [_template(base_url, *pair) for pair in pairs[offset : offset + limit]]


def _template(base_url: str, number: int, trigger: App, action: App) -> dict[str, Any]:
    title = f"{action.action} in {action.name} for each {trigger.trigger} in {trigger.name}"
    slug = f"{trigger.slug}-to-{action.slug}-{number}"
    url = f"{base_url}/templates/{slug}"
    text = f"{title}."
    return {
        "id": number,
        "title": title,
        "slug": slug,
        "status": "published",
        "description": text,
        "description_plain": text,
        "description_raw": text,
        "url": url,
        "create_url": f"{base_url}/editor?template={number}",
        "type": "template",
        "steps": [
            _template_step(base_url, number, at, app) for at, app in enumerate((trigger, action), start=1)
        ],
    }


def _template_step(base_url: str, number: int, position: int, app: App) -> dict[str, Any]:
    image = f"{base_url}/images/{app.slug}.png"
    return {
        "id": number * 10 + position,
        "uuid": str(uuid.uuid5(NAMESPACE, f"{number}-{position}")),
        "title": app.name,
        "slug": app.slug,
        "description": f"{app.name} is an app of this emulator.",
        "image": image,
        "images": {f"url_{size}x{size}": image for size in IMAGE_SIZES},
        "hex_color": "4a6fa5",
        "api": app.api,
        "url": f"{base_url}/apps/{app.slug}",
        "label": app.trigger if position == 1 else app.action,
    }
