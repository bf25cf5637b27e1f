"""Ledgers that tests fill, look into and damage."""

import hashlib
import math
import sqlite3
from contextlib import closing
from pathlib import Path

from client.ledger import Ledger
from common.privacy.accounting import Spend

DELTA = 1e-5
SPEND = Spend(0.3, 2.0, 20)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def charge(ledger: Ledger, n: int = 0) -> int:
    return ledger.charge("run", "rean", n, "patient", SPEND, DELTA, digest(f"in{n}"), math.inf)


def filled(path: Path, head: Path | None = None, releases: int = 3) -> Ledger:
    """A ledger of settled releases: two events each."""
    ledger = Ledger(path, head)
    for n in range(releases):
        ledger.settle(charge(ledger, n), digest(f"out{n}"))
    return ledger


def sql(path: Path, *statements: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return [row for text in statements for row in connection.execute(text).fetchall()]
