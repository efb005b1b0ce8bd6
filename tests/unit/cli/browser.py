"""A user with a browser, as the authorization page sees them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import requests


@dataclass
class Browser:
    """
    :param decision: ``approve`` or ``deny``.
    """

    decision: str = "approve"

    def decide(self, address: str, **changes: str) -> str:
        """Where the authorization page sends the browser to."""
        response = requests.get(address, timeout=10)
        assert response.status_code == 200, response.text
        form = {**dict(parse_qsl(urlsplit(address).query)), "decision": self.decision, **changes}
        page = address.partition("?")[0]
        return requests.post(page, data=form, allow_redirects=False, timeout=10).headers["Location"]
