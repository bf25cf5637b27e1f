"""The hospital's privacy ledger: every release is written down before it leaves.

One SQLite file per hospital holds all runs and stages, because the total counts. A release is
charged in one exclusive transaction that reads the whole history, so two processes cannot both
pass the cap; a crash after the charge over-counts and never under-counts. Its numbers stay here.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend, epsilon

Unit = Literal["none", "window"]

_APPLICATION_ID = 0x46444C31  # "FDL1": tells a ledger from any other SQLite file
_LOCK_WAIT_S = 60.0
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COLUMNS = "id, time, run, stage, round, unit, q, sigma, steps, delta, received, reply"
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    run TEXT NOT NULL,
    stage TEXT NOT NULL,
    round INTEGER NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('none', 'window')),
    q REAL, sigma REAL, steps INTEGER,
    delta REAL NOT NULL,
    received TEXT NOT NULL,
    reply TEXT,
    CHECK ((unit = 'none') = (q IS NULL AND sigma IS NULL AND steps IS NULL)),
    CHECK (unit = 'none' OR (q IS NOT NULL AND sigma IS NOT NULL AND steps IS NOT NULL))
);
"""


@dataclass(frozen=True)
class Release:
    """One row: UTC time in ISO 8601, hashes in hexadecimal, `reply` None until settled."""

    id: int
    time: str
    run: str
    stage: str
    round: int
    unit: Unit
    q: float | None
    sigma: float | None
    steps: int | None
    delta: float
    received: str
    reply: str | None


@dataclass(frozen=True)
class Account:
    """What the hospital has spent at `delta` over all its releases.

    `epsilon_window` is infinite once anything left without noise; `epsilon_patient` is None for
    "not bounded", and 0 only while nothing was released.
    """

    unit: Literal["none", "window", "empty"]
    epsilon_window: float
    epsilon_patient: float | None
    delta: float
    releases: int


class Ledger:
    """The file of all releases of one hospital; safe to use from several processes."""

    def __init__(self, path: Path) -> None:
        """Open the ledger at `path`, or create it.

        Raises:
            InputError: if `path` holds anything but a ledger, or cannot be created.
        """
        self._path = path
        if not path.exists():
            _create(path)
        self._check()

    def charge(
        self, run: str, stage: str, round: int, unit: Unit, spend: Spend | None,
        delta: float, received: str, cap: float,
    ) -> int:  # fmt: skip
        """Write a release down, durably, before it leaves; return its row id.

        The cap holds for the window releases alone: one of unit 'none' is never refused and does
        not block later window releases, though the account is infinite from then on.

        Args:
            unit, spend: 'window' with rate, noise and steps of the release, or 'none' with None.
            delta: failure probability at which all window rows are composed.
            received: SHA-256 (hexadecimal) of the inputs the release answers.
            cap: largest allowed total epsilon per window; infinity for no cap.

        Raises:
            BudgetError: if the total would exceed the cap; nothing is written then.
            InputError: if an argument does not fit.
        """
        numbers = _checked_numbers(unit, spend, cap)
        _check_hash("received", received)
        asked = epsilon([] if spend is None else [spend], delta)  # loads Opacus before the lock
        with self._transaction() as connection:
            if spend is not None:
                _check_cap(_spends(connection), spend, delta, asked, cap)
            time = datetime.now(UTC).isoformat(timespec="seconds")
            cursor = connection.execute(
                "INSERT INTO releases (time, run, stage, round, unit, q, sigma, steps, delta,"
                " received) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (time, run, stage, int(round), unit, *numbers, float(delta), received),
            )
            return int(cursor.lastrowid or 0)

    def settle(self, row: int, reply_hash: str) -> None:
        """Record the SHA-256 of the reply that a charged release became.

        Raises:
            InputError: if there is no such row, or it was settled with another reply.
        """
        _check_hash("reply_hash", reply_hash)
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE releases SET reply = ? WHERE id = ? AND (reply IS NULL OR reply = ?)",
                (reply_hash, row, reply_hash),
            ).rowcount
            if changed != 1:
                raise InputError(f"row is {row}; it must exist and hold no other reply")

    def find(self, run: str, stage: str, round: int, received: str) -> Release | None:
        """Return the latest settled release of the same inputs, to resend its bytes for free."""
        with closing(self._connect()) as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM releases WHERE run = ? AND stage = ? AND round = ?"
                " AND received = ? AND reply IS NOT NULL ORDER BY id DESC LIMIT 1",
                (run, stage, round, received),
            ).fetchone()
        return None if found is None else Release(*found)

    def account(self, delta: float) -> Account:
        """Compose all releases at `delta`, settled or not.

        Raises:
            InputError: if delta does not lie between 0 and 1.
        """
        with closing(self._connect()) as connection, connection:
            connection.execute("BEGIN")  # one snapshot for both reads
            releases, bare = connection.execute(
                "SELECT COUNT(*), COALESCE(SUM(unit = 'none'), 0) FROM releases"
            ).fetchone()
            spends = _spends(connection)
        spent = epsilon(spends, delta)
        if releases == 0:
            return Account("empty", spent, 0.0, delta, 0)
        return Account(*(("none", math.inf) if bare else ("window", spent)), None, delta, releases)

    def _connect(self) -> sqlite3.Connection:
        """Open the existing file; a commit returns only once it is on disk."""
        uri = f"{self._path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the journal's removal too
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commit at the end, or roll back on any exception."""
        with closing(self._connect()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def _check(self) -> None:
        """Raise InputError unless the file is a ledger."""
        try:
            with closing(self._connect()) as connection:
                (found,) = connection.execute("PRAGMA application_id").fetchone()
                connection.execute(f"SELECT {_COLUMNS} FROM releases LIMIT 1")
        except sqlite3.Error as error:
            raise InputError(f"{self._path} is no ledger ({error}); name another file") from error
        if found != _APPLICATION_ID:
            raise InputError(f"{self._path} is another program's database; name another file")


def _create(path: Path) -> None:
    """Put a complete empty ledger at `path` in one move; leave a file that got there first.

    Raises:
        InputError: if the folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".ledger-") as folder:
            fresh = Path(folder) / "ledger"
            with closing(sqlite3.connect(fresh)) as connection:
                connection.executescript(_SCHEMA)
            try:
                os.link(fresh, path)
            except FileExistsError:
                return
    except OSError as error:
        raise InputError(f"{path} cannot be created: {error}") from error


def _spends(connection: sqlite3.Connection) -> list[Spend]:
    """Return the spends of all window rows."""
    rows = connection.execute("SELECT q, sigma, steps FROM releases WHERE unit = 'window'")
    return [Spend(*row) for row in rows]


def _checked_numbers(
    unit: Unit, spend: Spend | None, cap: float
) -> tuple[float | None, float | None, int | None]:
    """Return (q, sigma, steps) as SQLite types; raise InputError if they do not fit the unit."""
    if unit not in ("none", "window") or (unit == "window") != (spend is not None):
        raise InputError(f"unit is {unit!r} with spend {spend}; only 'window' needs one")
    if not cap >= 0:
        raise InputError(f"cap is {cap}; it must be at least 0")
    if spend is None:
        return None, None, None
    return float(spend.q), float(spend.sigma), int(spend.steps)  # numpy's would become blobs


def _check_cap(history: list[Spend], spend: Spend, delta: float, asked: float, cap: float) -> None:
    """Raise BudgetError, with the hospital's numbers, if `spend` on top exceeds the cap."""
    total = epsilon([*history, spend], delta)
    if total > cap:
        raise BudgetError(
            f"epsilon per window at delta {delta:g}: spent {epsilon(history, delta):.4g},"
            f" asked {asked:.4g}, together {total:.4g}; the cap is {cap:.4g}"
        )


def _check_hash(name: str, value: str) -> None:
    """Raise InputError unless value is a SHA-256 in lower-case hexadecimal."""
    if not _SHA256.fullmatch(value):
        raise InputError(f"{name} is {value!r}; it must be 64 lower-case hexadecimal digits")
