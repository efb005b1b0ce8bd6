"""The object storage of the end-to-end tests: an S3 API that the environment names, and its buckets."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

S3_VARIABLE = "WORKFLOW_TEST_S3"
"""Address of an S3 API in which buckets may be made, with any credentials: ``http://host:port``."""
CONN_ID = "aws_test"
REGION = "us-east-1"
LOGIN = "end-to-end-tests"
PREFIX = "payloads"
EXPIRATION_DAYS = 30


@dataclass(frozen=True)
class ObjectStorage:
    """
    :param url: of the S3 API.
    :param secret: the secret key of its user.
    """

    url: str
    secret: str

    @property
    def connection_json(self) -> str:
        """The Airflow connection ``aws_test``."""
        extra = {"endpoint_url": self.url, "region_name": REGION}
        return json.dumps({"conn_type": "aws", "login": LOGIN, "password": self.secret, "extra": extra})

    @cached_property
    def client(self) -> Any:
        """A client of boto3, which reads and writes past Airflow."""
        import boto3

        keys = {"aws_access_key_id": LOGIN, "aws_secret_access_key": self.secret}
        return boto3.client("s3", endpoint_url=self.url, region_name=REGION, **keys)

    def create_bucket(self) -> Bucket:
        """Create a bucket that expires the objects below its prefix after 30 days."""
        name = f"workflow-test-{secrets.token_hex(4)}"
        self.client.create_bucket(Bucket=name)
        rule = {
            "ID": "expire payloads",
            "Status": "Enabled",
            "Filter": {"Prefix": f"{PREFIX}/"},
            "Expiration": {"Days": EXPIRATION_DAYS},
        }
        self.client.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": [rule]})
        return Bucket(self, name)


@dataclass(frozen=True)
class Bucket:
    """A bucket that belongs to one test."""

    storage: ObjectStorage
    name: str

    @property
    def path(self) -> str:
        """The folder of a bucket as ``ObjectStoragePath`` takes it, with the connection."""
        return f"s3://{CONN_ID}@{self.name}/{PREFIX}"

    @property
    def objects(self) -> dict[str, bytes]:
        """The content of each object by its key."""
        client = self.storage.client
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key: client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    @property
    def expiration_days(self) -> dict[str, int]:
        """After how many days the objects below a prefix are removed."""
        rules = self.storage.client.get_bucket_lifecycle_configuration(Bucket=self.name)["Rules"]
        return {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in rules}

    def delete(self) -> None:
        """Delete the bucket with its objects."""
        for key in self.objects:
            self.storage.client.delete_object(Bucket=self.name, Key=key)
        self.storage.client.delete_bucket(Bucket=self.name)
