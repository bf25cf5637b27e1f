"""Whatever is done to the ledger's rows or its head is noticed, and only a person goes on."""

import hashlib
import json
import math
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.ledger import Head, Ledger, accept
from client.ledger_chain import START, Chain, following
from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend, epsilon

DELTA = 1e-5
SPEND = Spend(0.3, 2.0, 20)
OLD_SCHEMA = f"""
PRAGMA application_id = {0x46444C31};
CREATE TABLE releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, run TEXT NOT NULL,
    stage TEXT NOT NULL, round INTEGER NOT NULL, unit TEXT NOT NULL, q REAL, sigma REAL,
    steps INTEGER, delta REAL NOT NULL, received TEXT NOT NULL, reply TEXT);
"""


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


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "ledger.sqlite", tmp_path / "elsewhere" / "head"


def test_links_by_hand(paths) -> None:
    """Number, hash before and content, one space between: SHA-256, from sixty-four zeros."""
    filled(paths[0], releases=1)
    before = "0" * 64
    for number, content, hash in sql(paths[0], "SELECT * FROM events"):
        assert hash == digest(f"{number} {before} {content}")
        before = hash
    assert Ledger(paths[0]).head() == (2, before)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_character_breaks_the_chain(data) -> None:
    chain, rows = Chain(), []
    for n in range(3):
        content = json.dumps({"event": "charge", "head": True, "time": "t", "run": f"run{n}",
                              "stage": "age", "round": n, "unit": "patient", "trust": "hospital",
                              "q": 0.5, "sigma": 1.0, "steps": 3, "delta": 1e-5,
                              "received": digest("x")})
        after = following(chain.head, content)
        rows.append([*after[:1], content, after.hash])
        chain.add(*rows[-1])
    assert chain.broken is None and len(chain.releases) == 3
    row = data.draw(st.integers(0, 2))
    column = data.draw(st.sampled_from([1, 2]))
    place = data.draw(st.integers(0, len(rows[row][column]) - 1))
    text = rows[row][column]
    put = data.draw(st.characters(codec="utf-8").filter(lambda c: c != text[place]))
    rows[row][column] = text[:place] + put + text[place + 1 :]
    changed = Chain()
    for one in rows:
        changed.add(*one)
    assert re.match(f"event {row + 1} ", changed.broken or "")


@pytest.mark.parametrize("damage, event", [
    ("UPDATE events SET content = replace(content, '\"sigma\":2.0', '\"sigma\":9.0')"
     " WHERE number = 3", 3),
    ("UPDATE events SET content = replace(content, 'reply', 'reply2') WHERE number = 4", 4),
    ("DELETE FROM events WHERE number = 1", 2),
    ("DELETE FROM events WHERE number = 4", 5),
    ("INSERT INTO events SELECT 7, content, hash FROM events WHERE number = 6", 7),
    ("UPDATE events SET number = number + 1 WHERE number = 6", 7),
    ("UPDATE events SET content = 'nonsense' WHERE number = 2", 2),
    ("UPDATE events SET content = x'ff' WHERE number = 2", 2),
])
def test_damage_is_refused_until_signed(paths, damage: str, event: int) -> None:
    path, head = paths
    filled(path, head)
    sql(path, damage)
    for known in (None, head):
        with pytest.raises(BudgetError, match=f"is broken: event {event} ") as refused:
            Ledger(path, known)
        assert "\n" not in str(refused.value) and f"budget accept {path}" in str(refused.value)
    accept(path, head, "ada", "disk error")
    ledger = Ledger(path, head)
    account = ledger.account(DELTA)
    assert (account.epsilon_window, account.epsilon_patient) == (math.inf, None)
    [signed] = ledger.signatures()
    assert (signed.who, signed.why, account.accepted) == ("ada", "disk error", signed.time)
    charge(ledger, 9)
    assert Ledger(path, head).account(DELTA).epsilon_patient is None


def test_an_open_ledger_notices_too(paths) -> None:
    ledger = filled(paths[0])
    sql(paths[0], "DELETE FROM events WHERE number = 2")
    for use in (ledger.head, ledger.releases, lambda: charge(ledger, 5), lambda: ledger.settle(
            1, digest("out0")), lambda: ledger.check_echo(*START)):
        with pytest.raises(BudgetError, match="event 3 follows event 1"):
            use()


def test_rows_under_a_signature_are_sealed(paths) -> None:
    """A forgiven break is no licence to edit what lies before it."""
    path, _ = paths
    filled(path)
    sql(path, "DELETE FROM events WHERE number = 2")
    accept(path, None, "ada", "disk error")
    charge(Ledger(path), 7)
    sql(path, "UPDATE events SET content = replace(content, '2.0', '9.0') WHERE number = 1")
    with pytest.raises(BudgetError, match="event 1 has hash|seals other rows"):
        Ledger(path)


def test_a_signature_for_other_rows_forgives_nothing(paths) -> None:
    path, _ = paths
    ledger = filled(path, releases=1)
    content = json.dumps({"event": "signature", "head": False, "time": "t", "who": "eve",
                          "why": "x", "given_up": [], "seal": digest("other rows")})
    row = following(ledger.head(), content)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO events VALUES (?, ?, ?)", (row.events, content, row.hash))
    with pytest.raises(BudgetError, match="event 3 seals other rows"):
        Ledger(path)


def test_a_chain_hashed_anew_is_told_by_the_head(paths) -> None:
    """Who may write the file can make it whole again, but not equal to what the head remembers."""
    path, head = paths
    filled(path, head)
    rows, at = sql(path, "SELECT content FROM events"), START
    sql(path, "DELETE FROM events")
    with closing(sqlite3.connect(path)) as connection, connection:
        for (content,) in rows:
            at = following(at, content.replace('"sigma":2.0', '"sigma":9.0'))
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", (
                at.events, content.replace('"sigma":2.0', '"sigma":9.0'), at.hash))
    assert Ledger(path).head() == at
    with pytest.raises(BudgetError, match="lacks '6:"):
        Ledger(path, head)


def test_head_follows_every_event(paths) -> None:
    path, head = paths
    ledger = Ledger(path, head)
    assert head.read_text() == f"0:{'0' * 64}\n"
    for n in range(3):
        ledger.settle(charge(ledger, n), digest("out"))
        assert head.read_text() == f"{ledger.head()}\n" and ledger.head().events == 2 * n + 2
    ledger.settle(1, digest("out"))  # nothing new
    assert ledger.head().events == 6
    assert list(head.parent.iterdir()) == [head]


def test_head_behind_is_moved_forward(paths) -> None:
    path, head = paths
    ledger = filled(path, head)
    before = head.read_text()
    charge(ledger, 8)
    head.write_text(before)  # as a crash right after the commit leaves it
    assert str(Ledger(path, head).head()) == head.read_text().strip() != before.strip()


@pytest.mark.parametrize("loss", ["older copy", "cut off", "missing", "emptied", "another one"])
def test_what_the_head_remembers_must_be_there(paths, loss: str) -> None:
    path, head = paths
    ledger = filled(path, head, releases=1)
    shutil.copy(path, path.with_suffix(".copy"))
    charge(ledger, 5)
    seen = head.read_text().strip()
    if loss == "older copy":
        shutil.copy(path.with_suffix(".copy"), path)
    elif loss in ("cut off", "emptied"):
        sql(path, f"DELETE FROM events WHERE number > {2 if loss == 'cut off' else 0}")
    else:
        path.unlink()
        if loss == "another one":
            filled(path, releases=4)
    with pytest.raises(BudgetError) as refused:
        Ledger(path, head)
    text = str(refused.value)
    assert seen in text and f"budget accept {path} --head {head} --why TEXT" in text
    assert ("missing" in text) == (loss == "missing") and "\n" not in text
    assert path.exists() == (loss != "missing")  # a refusal makes nothing
    assert head.read_text().strip() == seen
    accept(path, head, "ada", "no other copy is left")
    ledger = Ledger(path, head)
    assert ledger.account(DELTA).epsilon_patient is None
    assert ledger.signatures()[0].given_up == (seen,)
    assert head.read_text().strip() == str(ledger.head())
    ledger.check_echo(3, seen.split(":")[1])  # a server that knows no better yet
    charge(ledger, 6)


def test_lost_or_damaged_head(paths) -> None:
    path, head = paths
    filled(path).head()
    ledger = Ledger(path, head)  # a head may be begun late
    charge(ledger, 5)
    for harm, words in ((head.unlink, f"head {head} is missing"),
                        (lambda: head.write_text("7:nonsense"), "lacks '7:nonsense'"),
                        (lambda: head.write_text(""), "lacks ''")):
        before = head.read_text()
        harm()
        with pytest.raises(BudgetError, match=words):
            Ledger(path, head)
        with pytest.raises(BudgetError, match=words):
            charge(ledger, 6)
        head.write_text(before)
    head.unlink()
    accept(path, head, "ada", "volume lost")
    assert Ledger(path, head).account(DELTA).accepted
    head.unlink()
    head.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        Ledger(path, head)
    with pytest.raises(InputError, match="cannot be written"):
        Ledger(path.with_name("new"), path.parent / "absent" / "head")


def test_echo_of_an_older_copy_is_refused(paths) -> None:
    path, head = paths
    ledger = filled(path, head, releases=1)
    shutil.copy(path, path.with_suffix(".copy"))
    kept = head.read_text()
    early = ledger.head()
    charge(ledger, 5)
    late = ledger.head()
    for seen in (START, early, late):
        ledger.check_echo(*seen)
    shutil.copy(path.with_suffix(".copy"), path)
    head.write_text(kept)  # the head was restored with it
    ledger = Ledger(path, head)
    ledger.check_echo(*early)
    with pytest.raises(BudgetError, match=f"lacks '{late}', which the server .*--echo {late}"):
        ledger.check_echo(*late)
    with pytest.raises(BudgetError):
        ledger.check_echo(early.events, late.hash)
    accept(path, head, "ada", "backup of Monday", late)
    Ledger(path, head).check_echo(*late)
    assert Ledger(path, head).account(DELTA).epsilon_patient is None


def test_nothing_to_sign_for(paths) -> None:
    path, head = paths
    with pytest.raises(InputError, match="does not exist"):
        accept(path, head, "ada", "why")
    ledger = filled(path, head)
    for echo in (None, ledger.head()):
        with pytest.raises(InputError, match="is whole, with 6 events"):
            accept(path, head, "ada", "why", echo)
    for who, why in ((" ", "why"), ("ada", "")):
        with pytest.raises(InputError, match="in words"):
            accept(path, head, who, why, Head(9, "x"))
    assert ledger.head().events == 6


def test_damage_below_the_rows(paths) -> None:
    path, head = paths
    filled(path, head, releases=40)
    raw = path.read_bytes()
    path.write_bytes(raw[:8192] + b"\xff" * 4096 + raw[12288:])
    with pytest.raises(BudgetError, match="cannot be read .*move it away"):
        Ledger(path, head)


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
