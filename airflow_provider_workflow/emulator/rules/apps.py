"""The made-up apps from which guesses and templates are built."""

from __future__ import annotations

from typing import NamedTuple


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
