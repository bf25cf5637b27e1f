"""The SQLite file of a ledger: creating, migrating, reading and appending to its chain.

Every append reads the whole chain under the write lock, and the head file moves after the commit
(under the lock again, so that it only ever moves forward): a crash leaves it behind, never ahead.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from client.ledger_chain import START, Chain, Content, Head, following, written
from client.ledger_head import read_head, write_head
from common.errors import BudgetError, InputError

_FIRST_ID, _APPLICATION_ID = 0x46444C31, 0x46444C32  # "FDL1", before the chain, and "FDL2"
_LOCK_WAIT_S = 60.0
_TABLE = ("CREATE TABLE events (number INTEGER PRIMARY KEY, content TEXT NOT NULL,"
          " hash TEXT NOT NULL)")
_FIRST_COLUMNS = "id, time, run, stage, round, unit, q, sigma, steps, delta, received, reply"

Decision = Callable[[Chain, str | None], Content | None]


class LedgerFile:
    """A ledger's file and, off its volume, its head file (None: no head is kept)."""

    def __init__(self, path: Path, head: Path | None) -> None:
        self.path, self.head = path, head

    def prepare(self, create: bool) -> None:
        """Make sure that the file is a ledger with a chain.

        Args:
            create: make a missing one even where the head file names events.

        Raises:
            BudgetError: the file is missing, and the head file names events.
            InputError: it is anything but a ledger, or cannot be created.
        """
        if not self.path.exists():
            kept = read_head(self.head)
            if not create and kept is not None and kept != str(START):
                raise BudgetError(f"ledger {self.path} is missing, and {self.head} names "
                                  f"{kept!r}; {self._advice()}")
            _create(self.path)
        try:
            with closing(self._connect()) as connection:
                if _application_id(connection) == _FIRST_ID:
                    _migrate(connection)
                found = _application_id(connection)
                connection.execute("SELECT number, content, hash FROM events LIMIT 0")
        except sqlite3.Error as error:
            raise InputError(f"{self.path} is no ledger ({error}); name another file, or move it "
                             "away if it was one") from error
        if found != _APPLICATION_ID:
            raise InputError(f"{self.path} is another program's database; name another file")

    def read(self) -> tuple[Chain, str | None]:
        """The chain, and what is wrong with it (None: nothing)."""
        kept = read_head(self.head)  # before the chain, which can only have gone on since
        with closing(self._connect()) as connection:
            chain = self._chain(connection)
        return chain, self._trouble(chain, kept)

    def append(self, decide: Decision) -> int:
        """Write an event down, durably, then move the head file; return the event's number.

        Args:
            decide: called under the write lock with the chain and what is wrong with it; returns
                the event, or None to write nothing; what it raises is raised.
        """
        kept = read_head(self.head)
        with closing(self._connect()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            chain = self._chain(connection)
            content = decide(chain, self._trouble(chain, kept))
            if content is None:
                return chain.head.events
            head = _insert(connection, chain.head, {**content, "head": self.head is not None})
        self.publish()
        return head.events

    def publish(self) -> None:
        """Bring the head file to where the chain is."""
        if self.head is None:
            return
        with closing(self._connect()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute("SELECT number, hash FROM events"
                                     " ORDER BY number DESC LIMIT 1").fetchone()
            head = Head(*row) if row else START
            if read_head(self.head) != str(head):
                write_head(self.head, head)

    def refusal(self, chain: Chain, seen: str, where: str) -> str:
        """The line for a chain that lacks a head that `where` has seen."""
        echo = "" if where == str(self.head) else f" --echo {seen}"
        return (f"ledger {self.path} ends at event {chain.head.events} and lacks {seen!r}, which "
                f"{where} names: an older copy was restored; {self._advice(echo)}")

    def _trouble(self, chain: Chain, kept: str | None) -> str | None:
        """Why nobody may go on from the chain, in one line, or None."""
        if chain.broken:
            return f"ledger {self.path} is broken: {chain.broken}; {self._advice()}"
        if self.head is None:
            return None
        if kept is None and chain.headed:
            return (f"head {self.head} is missing, and ledger {self.path} was kept with one; put "
                    f"it back, or else {self._advice()}")
        if kept is not None and kept not in chain.heads:
            return self.refusal(chain, kept, str(self.head))
        return None

    def _advice(self, echo: str = "") -> str:
        head = f" --head {self.head}" if self.head else ""
        return (f"restore the newest copy, or sign to go on without: fedrean budget accept "
                f"{self.path}{head}{echo} --why TEXT")

    def _connect(self) -> sqlite3.Connection:
        """Open the existing file; a commit returns only once it is on disk."""
        uri = f"{self.path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the journal's removal too
        connection.text_factory = lambda raw: raw.decode(errors="replace")  # its hash tells
        return connection

    def _chain(self, connection: sqlite3.Connection) -> Chain:
        """Read all events.

        Raises:
            BudgetError: the file is damaged below its rows, or stays locked.
        """
        chain = Chain()
        try:
            for row in connection.execute("SELECT number, CAST(content AS TEXT),"
                                          " CAST(hash AS TEXT) FROM events ORDER BY number"):
                chain.add(*row)
        except sqlite3.Error as error:
            raise BudgetError(f"ledger {self.path} cannot be read ({error}); restore the newest "
                              "copy, or move it away and sign for a missing one") from error
        return chain


def _create(path: Path) -> None:
    """Put a complete empty ledger at `path` in one move; leave a file that got there first.

    Raises:
        InputError: if the folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".ledger-") as folder:
            fresh = Path(folder) / "ledger"
            with closing(sqlite3.connect(fresh)) as connection:
                connection.executescript(f"PRAGMA application_id = {_APPLICATION_ID}; {_TABLE};")
            try:
                os.link(fresh, path)
            except FileExistsError:
                return
    except OSError as error:
        raise InputError(f"{path} cannot be created: {error}") from error


def _migrate(connection: sqlite3.Connection) -> None:
    """Turn the releases table of the first format into a chain, in one transaction."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if _application_id(connection) != _FIRST_ID:
            return  # another process was first
        rows = connection.execute(f"SELECT {_FIRST_COLUMNS} FROM releases ORDER BY id").fetchall()
        names = _FIRST_COLUMNS.split(", ")
        connection.execute(_TABLE)
        head, settlements = START, []
        for row in rows:  # charges first: so each keeps its id as its number
            release = dict(zip(names, row, strict=True))
            _, reply = release.pop("id"), release.pop("reply")
            head = _insert(connection, head,
                           {"event": "charge", "trust": "hospital", "head": False, **release})
            if reply is not None:
                settlements.append({"event": "settlement", "head": False, "row": head.events,
                                    "time": release["time"], "reply": reply})
        for settlement in settlements:
            head = _insert(connection, head, settlement)
        connection.execute("DROP TABLE releases")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")


def _insert(connection: sqlite3.Connection, head: Head, content: Content) -> Head:
    """Append an event after `head`; return the new head."""
    text = written(content)
    after = following(head, text)
    connection.execute("INSERT INTO events VALUES (?, ?, ?)", (after.events, text, after.hash))
    return after


def _application_id(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])
