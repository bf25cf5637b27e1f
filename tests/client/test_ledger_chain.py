"""Whatever is done to the ledger's rows is noticed, and only a person goes on."""

import json
import math
import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.ledger import Ledger, accept
from client.ledger_chain import START, Chain, following
from common.errors import BudgetError
from tests.client.ledgers import DELTA, charge, digest, filled, sql


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
