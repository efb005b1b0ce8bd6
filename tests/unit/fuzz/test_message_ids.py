"""Message ids that are no UUIDs: each gets a run id that Airflow allows, and no two get the same."""

from __future__ import annotations

import hashlib

import httpx
from airflow.models.dagrun import DagRun
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.dispatch import runs
from airflow_provider_workflow.dispatch.payloads import unstorable
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.pytest_plugin import reset as forget
from tests.unit.fuzz import journeys
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.payloads import ANY_TEXT
from tests.unit.workbench import Workbench

HOSTILE = (
    *("", " ", ".", "..", "../..", "a/../b", "/", "\\", "a/b", "%2e%2e%2f", "%2F", "%"),
    *("?", "#", "a?b#c", "&"),
    *(";", "\n", "\r\n", "a\n", "\0", "\t", "\x7f", "\u2028", "\u202e", "\ud800", "e\u0301", "\xe9"),
    *("\U0001f600", "\u0661", "{{ ti }}", "null", "None", "__classname__", "workflow__"),
    *("manual__2026-01-01T00:00:00+00:00", "x" * 240, "x" * 241, "x" * 10_000, "A", "a", "a ", " a", "a+b"),
    *("a:b", "a~b", "--help", "a..b", "..."),
)
INBOX = "an-inbox"
ANY_ID = st.sampled_from(HOSTILE) | ANY_TEXT | st.text("abAB01.-_~:+/% \n", max_size=12) | st.uuids().map(str)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def allowed(run_id: str) -> bool:
    """Whether Airflow takes a run id, and whether it is the same at the other end of an address."""
    try:
        kept = DagRun(run_id=run_id).run_id
        address = httpx.URL("http://airflow/execution/").join(f"dag-runs/handle/{run_id}")
    except (ValueError, httpx.InvalidURL):
        return False
    return kept == run_id and address.path == f"/execution/dag-runs/handle/{run_id}" and len(run_id) <= 250


@tries(400)
@given(message_id=ANY_ID)
@example(message_id=digest("one"))
def test_every_message_id_gets_a_run_id_that_airflow_allows(message_id: str) -> None:
    run_id = runs.run_id_of(message_id, INBOX)
    assert allowed(run_id)
    assert runs.run_id_of(message_id, INBOX) == run_id


@tries(400)
@given(ids=st.lists(ANY_ID, min_size=2, max_size=20, unique=True), hashed=st.booleans())
@example(ids=list(HOSTILE), hashed=True)
def test_no_two_messages_get_the_same_run_id(ids: list[str], hashed: bool) -> None:
    # Somebody may also send the digests of ids as ids.
    every = {*ids, *(digest(each) for each in ids)} if hashed else set(ids)
    assert len({runs.run_id_of(each, INBOX) for each in every}) == len(every)


def test_the_examples_are_hostile_enough_to_be_refused_as_they_are() -> None:
    assert sum(not allowed(runs.RUN_ID_PREFIX + each) for each in HOSTILE) > len(HOSTILE) / 2


@tries(60)
@given(ids=st.lists(ANY_ID.filter(bool), min_size=1, max_size=5, unique=True))
@example(ids=[each for each in HOSTILE if each])
def test_messages_of_any_ids_are_dispatched_once_and_acknowledged(bench: Workbench, ids: list[str]) -> None:
    bench.supervisor.runs.clear()
    bench.put(*ids)
    dispatcher = bench.dispatcher()
    dispatcher.drain()
    dispatched = [conf["message"]["id"] for conf in bench.supervisor.runs.values()]
    assert len(dispatched) == len(ids)
    # A lone surrogate or a NUL in an id is one in the conf as well, and is escaped there.
    fit = {each for each in ids if unstorable(each) is None}
    assert fit <= set(dispatched)
    assert bench.hook.list_messages("orders") == []
    result = journeys.through_xcom(dispatcher.counts.result)
    assert result["started"]["count"] == len(ids)
    assert all(each.isprintable() for each in result["started"]["ids"])
    assert Counts.carried(journeys.through_event(dispatcher.counts.carry())).handled == len(ids)
    bench.service.store.inboxes.delete(bench.inbox_id)
    bench.inbox_id = bench.service.open_inbox("orders")
    forget()
