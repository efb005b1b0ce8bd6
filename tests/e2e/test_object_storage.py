"""Tasks of a real Airflow write to an S3 API, and read from it, with an Airflow connection."""

from __future__ import annotations

from tests.e2e.object_storage import EXPIRATION_DAYS, PREFIX

TEXT = '{"customer": "Zoë", "total": 12.5}'


def test_a_task_reads_from_object_storage_what_another_one_wrote(stage, inbox, bucket):
    run = stage.start("object_storage", inbox, folder=bucket.path, text=TEXT)

    assert run.succeeds() == TEXT
    assert run.result("write") == f"{bucket.path}/orders/1.json"
    assert bucket.objects == {f"{PREFIX}/orders/1.json": TEXT.encode()}
    assert bucket.expiration_days == {f"{PREFIX}/": EXPIRATION_DAYS}
