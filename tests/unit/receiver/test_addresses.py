"""Addresses that nobody can guess, and where their secret comes from."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from airflow_provider_workflow.receiver.addresses import Addresses, part_of, read_or_make, usable

SECRET, NEXT = "s" * 40, "n" * 40


def test_each_inbox_has_an_address_of_its_own() -> None:
    addresses = Addresses([SECRET], ["orders", "Orders", "a b", "世界"])
    paths = [addresses.path(inbox) for inbox in ("orders", "Orders", "a b", "世界")]
    assert len(set(paths)) == 4
    assert all(re.fullmatch(r"/[A-Za-z0-9_-]{43}", path) for path in paths), "256 bits"
    assert [addresses.inbox_of(path) for path in paths] == ["orders", "Orders", "a b", "世界"]


def test_an_address_stays_the_same_over_restarts_and_changes_with_the_secret() -> None:
    first, again, other = (
        Addresses([secret], ["orders"]).path("orders") for secret in (SECRET, SECRET, NEXT)
    )
    assert first == again != other


@pytest.mark.parametrize(
    "path",
    ["", "/orders", f"/{SECRET}", "/" + "A" * 43, "/\ud800"],
)
def test_another_path_belongs_to_nobody(path: str) -> None:
    assert Addresses([SECRET], ["orders"]).inbox_of(path) is None


def test_a_right_part_with_more_or_less_of_it_belongs_to_nobody() -> None:
    addresses = Addresses([SECRET], ["orders"])
    right = addresses.path("orders")
    wrong = [right[:-1], right + "/", right + "A", "/" + right, right.lower(), right + "/orders"]
    assert [addresses.inbox_of(path) for path in wrong] == [None] * len(wrong)


def test_while_a_secret_is_replaced_both_are_answered_and_the_new_one_is_shown() -> None:
    addresses = Addresses([NEXT, SECRET], ["orders"])
    assert addresses.path("orders") == "/" + part_of(NEXT, "orders")
    assert addresses.inbox_of("/" + part_of(SECRET, "orders")) == "orders"


def test_a_missing_file_is_made_for_its_owner_alone_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    (made,) = read_or_make(file)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert read_or_make(file) == [made]
    (other,) = read_or_make(tmp_path / "other")
    assert made != other
    assert len(made) == 43, "256 random bits"


def test_a_file_holds_one_secret_per_line(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{NEXT}\n\n{SECRET}\n")
    assert read_or_make(file) == [NEXT, SECRET]


@pytest.mark.parametrize("text", ["", "short", f"{SECRET}\nshort"])
def test_a_secret_that_could_be_guessed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^THERE must hold secrets of at least 32 characters") as caught:
        usable(text, "THERE")
    assert "short" not in str(caught.value)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing/secret cannot be used: No such file"):
        read_or_make(tmp_path / "missing" / "secret")
    with pytest.raises(ValueError, match="cannot be used: Is a directory"):
        read_or_make(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff" * 64)
    with pytest.raises(ValueError, match="binary is no text"):
        read_or_make(tmp_path / "binary")
