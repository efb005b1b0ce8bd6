"""Addresses of assets: any text is one inbox, always written in the same way, or refused."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

import pytest
from airflow.sdk import Asset
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.names import ANY_NAME, HOSTILE, sendable

PARTS = st.sampled_from(HOSTILE) | st.text("ab/%2fF:@?#[]&=. \\", max_size=10) | ANY_NAME
ADDRESSES = st.builds(
    "{}{}{}{}{}".format,
    st.just(f"{SCHEME}://"),
    PARTS,
    st.sampled_from(("", "/", "//", "?", "#")),
    PARTS,
    PARTS,
) | st.builds("{}{}".format, st.just(f"{SCHEME}:"), PARTS)
SECRET = "hunter2-secret"
INBOXES = ANY_NAME.map(lambda name: name[:100]).filter(sendable)
CONNECTIONS = ANY_NAME.map(lambda name: name[:20]).filter(sendable)


def sanitized(address: str) -> str | None:
    """The one form of an address, by Airflow's own way to it; None where it is refused."""
    try:
        return Asset("x", address).uri
    except ValueError:
        return None


@tries(300)
@given(address=ADDRESSES)
@example(address=f"{SCHEME}://[::1/inbox")
@example(address=f"{SCHEME}://conn/%ff")
@example(address=f"{SCHEME}://conn/a%2Fb?x=y#z")
@example(address=f"{SCHEME}://conn/\ud800")
def test_an_address_has_one_form_or_is_refused(address: str) -> None:
    form = sanitized(address)
    if form is None:
        return
    assert form.isascii()
    assert sanitized(form) == form
    parts = urlsplit(form)
    connection, inbox = unquote(parts.netloc), unquote(parts.path[1:])
    # It is what whoever writes it properly writes.
    assert form == create_asset(inbox=inbox, workflow_conn_id=connection).uri
    assert (parts.query, parts.fragment, parts.path.count("/")) == ("", "", 1)


@tries(100)
@given(connection=CONNECTIONS, inbox=INBOXES, data=st.data())
def test_however_its_characters_are_escaped_an_address_means_the_same(
    connection: str, inbox: str, data: st.DataObject
) -> None:
    def escaped(text: str) -> str:
        safe = data.draw(st.sampled_from(("", "!$'()*,;=", "abcxyzABC-._~")))
        written = quote(text, safe=safe)
        return written.lower() if data.draw(st.booleans()) and text.islower() else written

    proper = create_asset(inbox=inbox, workflow_conn_id=connection).uri
    assert sanitized(f"{SCHEME}://{escaped(connection)}/{escaped(inbox)}") == proper


@tries(100)
@given(one=st.tuples(CONNECTIONS, INBOXES), other=st.tuples(CONNECTIONS, INBOXES))
@example(one=("a", "b/c"), other=("a", "b%2Fc"))
@example(one=("a", "B"), other=("a", "b"))
@example(one=("A", "b"), other=("a", "b"))
def test_two_inboxes_are_two_assets(one: tuple[str, str], other: tuple[str, str]) -> None:
    uris = {create_asset(workflow_conn_id=each[0], inbox=each[1]).uri for each in (one, other)}
    assert len(uris) == len({one, other})


@tries(100)
@given(before=st.sampled_from(("", "user", "a%40b")), after=PARTS)
def test_credentials_in_an_address_are_refused_and_not_repeated(before: str, after: str) -> None:
    with pytest.raises(ValueError) as refused:
        sanitize_uri(urlsplit(f"{SCHEME}://{before}:{SECRET}@{after}"))
    assert SECRET not in str(refused.value)
