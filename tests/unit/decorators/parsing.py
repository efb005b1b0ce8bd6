"""DAG files, parsed as Airflow's DAG processor does."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag

NO_EXAMPLES = {"include_examples": False} if "include_examples" in signature(DagBag).parameters else {}


def dags_of(folder: Path, text: str) -> dict[str, Any]:
    """The DAGs that Airflow finds in a file of this text, in safe mode."""
    (folder / "dags.py").write_text(text)
    bag = DagBag(str(folder), safe_mode=True, **NO_EXAMPLES)
    assert not bag.import_errors
    return {**bag.dags}
