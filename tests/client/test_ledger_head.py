"""An older or missing ledger is noticed by its head file and by the server's echo."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from client.ledger import Head, Ledger, accept
from client.ledger_chain import START, following
from common.errors import BudgetError, InputError
from tests.client.ledgers import DELTA, charge, digest, filled, sql


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
