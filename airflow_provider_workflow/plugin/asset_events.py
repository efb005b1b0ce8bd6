"""
Records events of inboxes' assets in Airflow's metadata database, for the notification endpoint.

Like ``airflow_internals.py``, this module uses names that are private to Airflow. Airflow's
``POST /api/v2/assets/events`` records events too, but it needs a user, and cannot tell whether a run waits
already. A public function that records an event unless a run waits would replace this module.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.airflow_internals import database_session

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class Outcome(Enum):
    """The outcome of a notification."""

    RECORDED = "recorded"
    WAITING = "waiting"
    """Nothing is recorded: each DAG has a run, or an event, that has not begun to lease."""
    PAUSED = "paused"
    """Nothing is recorded: all DAGs are paused, for which Airflow ignores events."""
    NO_DAG = "no DAG"
    """Nothing is recorded: no DAG is scheduled on the asset."""


def record_event(uri: str, extra: dict[str, Any]) -> Outcome:
    """
    Record an event of an asset, unless no DAG would start, or each has a run that waits already.

    A run that is queued leases later than this call, so it finds the messages that the notification is about.
    A running one may have found the inbox empty just before, and gets a successor.

    :param uri: of the asset.
    :param extra: of the event.
    """
    from airflow.assets.manager import asset_manager

    with database_session() as session:
        asset = _locked_asset(uri, session)
        dags = {} if asset is None else _scheduled_dags(asset, session)
        if not dags:
            return Outcome.NO_DAG
        unpaused = {dag_id for dag_id, is_paused in dags.items() if not is_paused}
        if not unpaused:
            return Outcome.PAUSED
        if unpaused <= _waiting_dags(asset.id, unpaused, session):
            return Outcome.WAITING
        asset_manager.register_asset_change(asset=asset, extra=extra, session=session)
        return Outcome.RECORDED


def _locked_asset(uri: str, session: Session) -> Any:
    """
    The asset that DAGs use, or None.

    Its row is locked until the end of the transaction: of two API servers that are notified at the same time,
    the second one finds the event of the first. SQLite has no such lock; there one event more is recorded.
    """
    from airflow.models.asset import AssetModel
    from sqlalchemy import select

    used = select(AssetModel).where(AssetModel.uri == uri, AssetModel.active.has())
    return session.scalar(used.with_for_update(key_share=True, of=AssetModel))


def _scheduled_dags(asset: Any, session: Session) -> dict[str, bool]:
    """The DAGs that are scheduled on an asset, and whether each is paused."""
    from airflow.models.asset import (
        DagScheduleAssetNameReference,
        DagScheduleAssetReference,
        DagScheduleAssetUriReference,
    )
    from airflow.models.dag import DagModel
    from sqlalchemy import or_, select

    references = (
        (DagScheduleAssetReference, DagScheduleAssetReference.asset_id == asset.id),
        (DagScheduleAssetNameReference, DagScheduleAssetNameReference.name == asset.name),
        (DagScheduleAssetUriReference, DagScheduleAssetUriReference.uri == asset.uri),
    )
    scheduled = [DagModel.dag_id.in_(select(table.dag_id).where(which)) for table, which in references]
    rows = session.execute(
        select(DagModel.dag_id, DagModel.is_paused).where(or_(*scheduled), DagModel.is_stale.is_(False))
    )
    return {dag_id: bool(is_paused) for dag_id, is_paused in rows}


def _waiting_dags(asset_id: int, dag_ids: Collection[str], session: Session) -> set[str]:
    """Those of the DAGs with an event of the asset whose run is not created, or has not begun."""
    from airflow.models.asset import AssetDagRunQueue, AssetEvent
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    # Events first: one whose run is created between the two queries is found by the second one.
    events = session.scalars(
        select(AssetDagRunQueue.target_dag_id).where(
            AssetDagRunQueue.asset_id == asset_id, AssetDagRunQueue.target_dag_id.in_(dag_ids)
        )
    ).all()
    runs = session.scalars(
        select(DagRun.dag_id)
        .select_from(AssetEvent)
        .join(AssetEvent.created_dagruns)
        .where(AssetEvent.asset_id == asset_id, DagRun.dag_id.in_(dag_ids), DagRun.state == "queued")
    ).all()
    return {*events, *runs}
