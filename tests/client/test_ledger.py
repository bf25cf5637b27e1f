"""The ledger counts every release, before it leaves, across processes and crashes."""

import hashlib
import math
import multiprocessing
import os
import sqlite3
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import client.ledger
from client.ledger import Account, Ledger, Trust
from client.ledger_account import counted
from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend, epsilon

DELTA = 1e-5
SPEND = Spend(0.3, 2.0, 20)
FORK = multiprocessing.get_context("fork")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def charge(ledger: Ledger, n: int = 0, spend: Spend | None = SPEND, cap: float = math.inf) -> int:
    unit = "none" if spend is None else "window"
    return ledger.charge("run", "rean", n, unit, spend, DELTA, digest(f"in{n}"), cap)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_empty(ledger: Ledger) -> None:
    assert ledger.account(DELTA) == Account("empty", 0.0, 0.0, DELTA, 0)


def test_composes_over_runs_stages_and_reopening(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path).charge("a", "age", 1, "window", SPEND, DELTA, digest("x"), 99.0)
    Ledger(path).charge("b", "rean", 1, "window", SPEND, DELTA, digest("x"), 99.0)
    account = Ledger(path).account(DELTA)
    assert account.epsilon_window == pytest.approx(epsilon([Spend(0.3, 2.0, 40)], DELTA))
    assert (account.unit, account.epsilon_patient, account.releases) == ("window", None, 2)


def test_cap_is_refused_with_the_numbers_and_nothing_written(ledger: Ledger) -> None:
    one, two = epsilon([SPEND], DELTA), epsilon([SPEND, SPEND], DELTA)
    cap = (one + two) / 2
    charge(ledger, 0, cap=cap)
    with pytest.raises(BudgetError) as refused:
        charge(ledger, 1, cap=cap)
    text = str(refused.value)
    assert f"spent {one:.4g}" in text and f"asked {one:.4g}" in text
    assert f"together {two:.4g}" in text and f"cap is {cap:.4g}" in text
    assert ledger.account(DELTA).releases == 1
    charge(ledger, 1, cap=two + 1e-9)


def test_no_noise_under_a_cap_is_refused(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="asked not bounded, together not bounded; the cap"):
        charge(ledger, spend=Spend(0.3, 0.0, 1), cap=1e9)


def test_bare_release_unbounds_the_account_but_blocks_nothing(ledger: Ledger) -> None:
    charge(ledger, 0, spend=None, cap=0.0)
    assert ledger.account(DELTA) == Account("none", math.inf, None, DELTA, 1)
    charge(ledger, 1, cap=epsilon([SPEND], DELTA) + 1e-9)
    assert ledger.account(DELTA) == Account("none", math.inf, None, DELTA, 2)
    with pytest.raises(BudgetError):  # the cap on windows still holds
        charge(ledger, 2, cap=epsilon([SPEND], DELTA) + 1e-9)


def test_retry_is_found_once_settled(ledger: Ledger) -> None:
    row = charge(ledger)
    assert ledger.find("run", "rean", 0, digest("in0")) is None
    ledger.settle(row, digest("out"))
    found = ledger.find("run", "rean", 0, digest("in0"))
    assert found is not None and (found.id, found.reply) == (row, digest("out"))
    assert (found.unit, found.q, found.sigma, found.steps) == ("window", 0.3, 2.0, 20)
    for other in (("run2", "rean", 0, "in0"), ("run", "age", 0, "in0"), ("run", "rean", 1, "in0"),
                  ("run", "rean", 0, "in1")):  # fmt: skip
        assert ledger.find(*other[:3], digest(other[3])) is None


def test_settle_is_final(ledger: Ledger) -> None:
    row = charge(ledger)
    ledger.settle(row, digest("out"))
    ledger.settle(row, digest("out"))
    for bad in ((row, digest("other")), (row + 1, digest("out")), (row, "short")):
        with pytest.raises(InputError):
            ledger.settle(*bad)


def _charge_and_die(path: Path) -> None:
    charge(Ledger(path))
    os._exit(9)


def test_crash_between_charge_and_settle_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    child = FORK.Process(target=_charge_and_die, args=(path,))
    child.start()
    child.join(60)
    assert child.exitcode == 9
    assert Ledger(path).account(DELTA).releases == 1
    assert Ledger(path).account(DELTA).epsilon_window == pytest.approx(epsilon([SPEND], DELTA))
    assert Ledger(path).find("run", "rean", 0, digest("in0")) is None


def _slowly(*args: Any) -> float:
    """Compose while the other process would read, were there no lock."""
    time.sleep(0.1)
    return counted(*args)


def _race(path: Path, cap: float, barrier: Barrier) -> None:
    client.ledger.counted = _slowly
    barrier.wait(60)
    try:
        charge(Ledger(path), cap=cap)  # both also race to create the file
    except BudgetError:
        os._exit(3)
    os._exit(0)


def test_two_processes_cannot_both_pass_the_cap(tmp_path: Path) -> None:
    cap = (epsilon([SPEND], DELTA) + epsilon([SPEND, SPEND], DELTA)) / 2
    for attempt in range(3):
        path = tmp_path / f"{attempt}.sqlite"
        barrier = FORK.Barrier(2)
        racers = [FORK.Process(target=_race, args=(path, cap, barrier)) for _ in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(60)
        assert sorted(r.exitcode for r in racers if r.exitcode is not None) == [0, 3]
        assert Ledger(path).account(DELTA).releases == 1
        assert not list(tmp_path.glob(".ledger-*"))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1.0, 2.0]), st.integers(1, 30), st.booleans()), max_size=6)
)
def test_never_under_counts(asks: list[tuple[float, int, bool]]) -> None:
    """Whatever is charged, refused, settled or not: passed releases compose to at most the cap."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, cap, passed = Ledger(Path(folder) / "l"), 6.0, list[Spend]()
        for n, (sigma, steps, settle) in enumerate(asks):
            spend = Spend(1.0, sigma, steps)
            fits = epsilon([*passed, spend], DELTA) <= cap
            try:
                row = charge(ledger, n, spend, cap)
            except BudgetError:
                assert not fits
                continue
            assert fits
            passed.append(spend)
            if settle:
                ledger.settle(row, digest("out"))
        account = ledger.account(DELTA)
        assert account.epsilon_window == pytest.approx(epsilon(passed, DELTA), abs=1e-12)
        assert account.epsilon_window <= cap and account.releases == len(passed)


def test_numpy_numbers_survive(ledger: Ledger) -> None:
    spend = Spend(np.float32(0.5), np.float64(2.0), np.int64(7))  # type: ignore[arg-type]
    charge(ledger, spend=spend)
    expected = epsilon([Spend(0.5, 2.0, 7)], DELTA)
    assert ledger.account(DELTA).epsilon_window == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["text", "zero bytes", "other database", "folder", "same table"])
def test_file_that_is_no_ledger(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind in ("text", "zero bytes"):
        path.write_text("not a database, but long enough to look at" * 9 * (kind == "text"))
    else:
        Ledger(path) if kind == "same table" else None
        connection = sqlite3.connect(path)
        connection.executescript("PRAGMA application_id = 7; CREATE TABLE t (x);")
        connection.close()
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(InputError, match="ledger|another program"):
        Ledger(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be created"):
        Ledger(tmp_path / "absent" / "ledger")


def test_arguments_are_checked(ledger: Ledger) -> None:
    good = ("run", "rean", 0, "window", SPEND, DELTA, digest("x"), 9.0)
    for place, bad in ((3, "none"), (3, "visit"), (4, None), (5, 0.0), (6, "x"), (7, math.nan)):
        with pytest.raises(InputError):
            ledger.charge(*(bad if i == place else v for i, v in enumerate(good)))  # type: ignore[arg-type]
    for unit, trust in (("window", "aggregate"), ("none", "aggregate"), ("patient", "server")):
        spend = None if unit == "none" else SPEND
        with pytest.raises(InputError, match=f"trust is '{trust}' of unit '{unit}'"):
            ledger.charge("r", "rean", 0, unit, spend, DELTA, digest("x"), 9.0, trust)  # type: ignore[arg-type]
    assert ledger.account(DELTA).releases == 0 and ledger.head().events == 0


def charge_patient(ledger: Ledger, n: int = 0, cap: float = math.inf, trust: Trust = "hospital",
                   ) -> int:  # fmt: skip
    return ledger.charge("run", "rean", n, "patient", SPEND, DELTA, digest(f"in{n}"), cap, trust)


def test_patients_are_bounded_by_patient_rows_alone(ledger: Ledger) -> None:
    charge_patient(ledger, 0)
    charge_patient(ledger, 1, trust="aggregate")
    account = ledger.account(DELTA)
    assert (account.unit, account.releases) == ("patient", 2)
    assert account.epsilon_patient == pytest.approx(epsilon([SPEND, SPEND], DELTA))
    assert account.epsilon_window > 2 * epsilon([SPEND, SPEND], DELTA)
    assert [release.trust for release in ledger.releases()] == ["hospital", "aggregate"]
    before = account.epsilon_window
    charge(ledger, 2)
    account = ledger.account(DELTA)
    assert (account.unit, account.epsilon_patient) == ("mixed", None)
    assert before < account.epsilon_window < math.inf
    charge(ledger, 3, spend=None)
    assert ledger.account(DELTA) == Account("none", math.inf, None, DELTA, 4)


def test_patient_row_without_noise_bounds_nobody(ledger: Ledger) -> None:
    ledger.charge("run", "rean", 0, "patient", Spend(0.3, 0.0, 1), DELTA, digest("x"), math.inf)
    assert ledger.account(DELTA) == Account("patient", math.inf, None, DELTA, 1)


def test_each_unit_is_held_to_its_own_cap(ledger: Ledger) -> None:
    one, two = epsilon([SPEND], DELTA), epsilon([SPEND, SPEND], DELTA)
    charge(ledger, 0)
    charge_patient(ledger, 1, cap=one + 1e-9)  # windows and what they spent do not count here
    with pytest.raises(BudgetError, match=f"epsilon per patient .* together {two:.4g}"):
        charge_patient(ledger, 2, cap=(one + two) / 2)
    with pytest.raises(BudgetError, match="epsilon per window"):  # but patients' count for windows
        charge(ledger, 2, cap=two + 1e-9)
    assert ledger.account(DELTA).releases == 2
