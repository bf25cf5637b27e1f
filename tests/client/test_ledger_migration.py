"""Ledgers of the first format become chains, whole or not at all."""

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from client.ledger import Ledger
from common.errors import BudgetError, InputError
from common.privacy.accounting import epsilon
from tests.client.ledgers import DELTA, SPEND, charge, digest, sql

OLD_SCHEMA = f"""
PRAGMA application_id = {0x46444C31};
CREATE TABLE releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, run TEXT NOT NULL,
    stage TEXT NOT NULL, round INTEGER NOT NULL, unit TEXT NOT NULL, q REAL, sigma REAL,
    steps INTEGER, delta REAL NOT NULL, received TEXT NOT NULL, reply TEXT);
"""


def old_ledger(path: Path) -> None:
    rows = [("a", "age", 1, "window", 0.3, 2.0, 20, digest("in"), digest("out")),
            ("a", "rean", 1, "none", None, None, None, digest("in"), None),
            ("b", "rean", 1, "window", 0.3, 2.0, 20, digest("in2"), digest("out2"))]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(OLD_SCHEMA)
        connection.executemany(
            "INSERT INTO releases (time, run, stage, round, unit, q, sigma, steps, delta, received,"
            " reply) VALUES ('2026-01-01', ?, ?, ?, ?, ?, ?, ?, 1e-5, ?, ?)", rows)


def test_migration_keeps_rows_and_ids(paths) -> None:
    path, head = paths
    old_ledger(path)
    ledger = Ledger(path, head)
    assert [(r.id, r.run, r.unit, r.sigma, r.reply) for r in ledger.releases()] == [
        (1, "a", "window", 2.0, digest("out")), (2, "a", "none", None, None),
        (3, "b", "window", 2.0, digest("out2"))]
    assert sql(path, "SELECT name FROM sqlite_master WHERE name IN ('events', 'releases')") == [
        ("events",)]
    assert ledger.head().events == 5 and head.read_text().strip() == str(ledger.head())
    ledger.settle(2, digest("late"))
    found = ledger.find("b", "rean", 1, digest("in2"))
    assert found is not None and found.id == 3 and found.trust == "hospital"
    assert ledger.account(DELTA).epsilon_window == math.inf
    spent = [release.spend for release in ledger.releases() if release.spend]
    assert epsilon(spent, DELTA) == epsilon([SPEND, SPEND], DELTA)
    sql(path, "DELETE FROM events")
    with pytest.raises(BudgetError):
        Ledger(path, head)


def test_migration_is_all_or_nothing(paths) -> None:
    path, _ = paths
    old_ledger(path)
    before = sql(path, "SELECT * FROM releases")
    sql(path, "CREATE TRIGGER t BEFORE DELETE ON releases BEGIN SELECT RAISE(ABORT, 'no'); END",
        "CREATE TABLE other (x REFERENCES releases(id))", "CREATE TABLE events (x)")
    with pytest.raises(InputError, match="is no ledger"):
        Ledger(path)
    assert sql(path, "SELECT * FROM releases") == before
    assert sql(path, "PRAGMA application_id") == [(0x46444C31,)]


def test_restored_copy_of_the_first_format(paths) -> None:
    path, head = paths
    old_ledger(path)
    shutil.copy(path, path.with_suffix(".copy"))
    ledger = Ledger(path, head)
    shutil.copy(path.with_suffix(".copy"), path)
    assert Ledger(path, head).head() == ledger.head()  # the same rows give the same chain
    charge(ledger, 4)
    shutil.copy(path.with_suffix(".copy"), path)
    with pytest.raises(BudgetError, match="older copy"):
        Ledger(path, head)
