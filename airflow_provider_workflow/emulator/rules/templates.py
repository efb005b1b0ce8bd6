"""The workflow templates of the made-up apps (docs/service.md 7)."""

from __future__ import annotations

import uuid
from itertools import permutations
from typing import Any

from airflow_provider_workflow.emulator.rules.apps import APPS, App

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
    wanted = set(apps or [])
    pairs = [
        (FIRST_ID + number, trigger, action)
        for number, (trigger, action) in enumerate(permutations(APPS, 2))
        if wanted <= {trigger.slug, action.slug}
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
        "steps": [_step(base_url, number, at, app) for at, app in enumerate((trigger, action), start=1)],
    }


def _step(base_url: str, number: int, position: int, app: App) -> dict[str, Any]:
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
