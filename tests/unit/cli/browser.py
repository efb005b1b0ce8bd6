"""A user with a browser, as the authorization page and the command that waits for him see them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

import requests


@dataclass
class Browser:
    """
    :param decision: ``approve`` or ``deny``.
    :param pages: what the waiting command answered.
    """

    decision: str = "approve"
    pages: list[requests.Response] = field(default_factory=list)

    def open(self, address: str) -> bool:
        """Go to the authorization page, decide, and follow its redirect."""
        self.pages.append(requests.get(self.decide(address), timeout=10))
        return True

    def decide(self, address: str, **changed: str) -> str:
        """Where the authorization page sends the browser to."""
        shown = requests.get(address, timeout=10)
        assert shown.status_code == 200, shown.text
        form = {**dict(parse_qsl(urlsplit(address).query)), "decision": self.decision, **changed}
        page = address.partition("?")[0]
        return requests.post(page, data=form, allow_redirects=False, timeout=10).headers["Location"]


if __name__ == "__main__":  # as what the environment names as BROWSER
    Browser().open(sys.argv[1])
