"""That no test left a secret anywhere in an Airflow: looked for when all tests are through with it."""

from __future__ import annotations

from itertools import chain

from tests.e2e.places import Place, decrypted_places, files, holds, places_of_lists, rows
from tests.e2e.stage import Stage
from tests.marks import Marks

ENCRYPTED = {
    ("decrypted connection.password", "client secret"),
    ("decrypted variable.val", "access-token"),
    ("decrypted variable.val", "refresh-token"),
}
"""
Where a connection of the database has its secret, and where the tokens of a user are; connections of the
environment have theirs nowhere.
"""
REFUSED = "listener_with_a_wrong_secret"
"""
A DAG whose task names the cause in its log: where that is found, a secret would be. A run of it must have
failed before.
"""


def check_that_no_secret_was_left(stage: Stage, marks: Marks) -> None:
    """
    Look at all files of an Airflow, at all rows of its database and at what its API lists.

    Of what Airflow encrypts, such as the arguments of triggers, only connections and the Variable of a user's
    tokens hold any.
    """

    def stored() -> list[Place]:
        stored_places = [*rows(stage.airflow), *decrypted_places(stage.airflow)]
        return stored_places if holds(stored_places, "*trigger.kwargs", "workflow_default") else []

    database_places = stage.until(stored, "a listener to wait")
    file_places, api_places = list(files(stage.airflow.home)), list(places_of_lists(stage.airflow.api))
    assert holds(file_places, f"*/dag_id={REFUSED}/*", "wrong secret."), "a task log is not looked at"
    assert holds(api_places, "*/taskInstances", "workflow_default"), "what tasks are given is not looked at"
    secrets = {
        (place, kind)
        for place, text in chain(file_places, database_places, api_places)
        for kind in marks.kinds_in(text)
    }
    leaks = secrets - ENCRYPTED
    assert not leaks, f"secrets in files, in the database or in the API: {sorted(leaks)}"
