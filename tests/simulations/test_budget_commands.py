"""`fedrean budget`: what was spent, whether the ledger is whole, and what is left."""

import hashlib
import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedrean
from client.ledger import Ledger, Release
from client.ledger_plan import Plan
from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend, calibrate, epsilon
from simulations.budget_commands import SIGMAS

DELTA = 1e-5
SPEND = Spend(0.1, 2.0, 100)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def charge(ledger: Ledger, n: int, unit: str = "patient", stage: str = "rean", **more) -> int:
    spend = None if unit == "none" else SPEND
    return ledger.charge("run", stage, n, unit, spend, DELTA, digest(f"{n}"), math.inf, **more)


@pytest.fixture
def call(monkeypatch, capsys):
    def run(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedrean", "budget", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as left:
            fedrean.main()
        return int(left.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "ledger.sqlite", tmp_path / "head"


def row(text: str, *words: str) -> list[str]:
    """Cells of the one line of a table that begins so."""
    [line] = [line for line in text.splitlines() if line.split()[: len(words)] == list(words)]
    return line.split()


def test_show_by_patient_by_part_and_as_json(paths, call) -> None:
    ledger = Ledger(paths[0])
    charge(ledger, 1, stage="age")
    charge(ledger, 2, trust="aggregate")
    charge(ledger, 3, trust="aggregate")
    code, out, _ = call("show", paths[0], "--json")
    [facts] = json.loads(out)
    assert code == 0 and (facts["unit"], facts["releases"]) == ("patient", 3)
    assert facts["epsilon_patient"] == epsilon([SPEND] * 3, DELTA)
    assert facts["epsilon_window"] > 2 * facts["epsilon_patient"]
    assert [(p["stage"], p["trust"], p["releases"], p["steps"]) for p in facts["parts"]] == [
        ("age", "hospital", 1, 100), ("rean", "aggregate", 2, 200)]
    assert [p["epsilon"] for p in facts["parts"]] == [
        epsilon([SPEND], DELTA), epsilon([SPEND] * 2, DELTA)]
    code, out, _ = call("show", paths[0])
    name = str(paths[0])
    assert row(out, name, "patient")[2:] == [f"{facts['epsilon_window']:.4g}",
                                             f"{facts['epsilon_patient']:.4g}", "3"]
    assert row(out, name, "run", "rean")[3:] == [
        "patient", "aggregate", "2", "200", f"{epsilon([SPEND] * 2, DELTA):.4g}"]
    _, out, _ = call("show", paths[0], "--delta", "1e-3", "--json")
    assert json.loads(out)[0]["epsilon_patient"] == epsilon([SPEND] * 3, 1e-3)


@pytest.mark.parametrize("unit", ["none", "window"])
def test_not_bounded_is_never_a_number(paths, call, unit: str) -> None:
    ledger = Ledger(paths[0])
    charge(ledger, 1, "patient")
    charge(ledger, 2, unit)
    _, out, _ = call("show", paths[0])
    total = row(out, str(paths[0]), {"none": "none", "window": "mixed"}[unit])
    assert total[-3:] == ["not", "bounded", "2"] and "inf" not in out.lower()
    assert (total[2] == "not") == (unit == "none")
    _, out, _ = call("show", paths[0], "--json")
    [facts] = json.loads(out)
    assert facts["epsilon_patient"] is None and "Infinity" not in out
    assert (facts["epsilon_window"] is None) == (unit == "none")


def test_show_several(tmp_path, call) -> None:
    for name in ("a", "b"):
        charge(Ledger(tmp_path / name), 1)
    code, out, _ = call("show", tmp_path / "a", tmp_path / "b", "--json")
    assert code == 0 and [fact["ledger"][-1] for fact in json.loads(out)] == ["a", "b"]
    code, _, err = call("show", tmp_path / "a", tmp_path / "b", "--head", tmp_path / "h")
    assert code == 2 and "each has its own" in err


def test_verify_accept_and_show_tell_one_story(paths, call) -> None:
    path, head = paths
    ledger = Ledger(path, head)
    charge(ledger, 1)
    shutil.copy(path, path.with_suffix(".copy"))
    charge(ledger, 2)
    code, out, _ = call("verify", path, "--head", head)
    assert code == 0 and f"whole, 2 events, head {ledger.head()}" in out
    shutil.copy(path.with_suffix(".copy"), path)
    code, out, err = call("verify", path, "--head", head)
    assert code == 1 and not out and err.count("\n") == 1 and "older copy was restored" in err
    assert call("show", path, "--head", head)[0] == 1
    words = err.strip().split("fedrean budget ")[1].replace("TEXT", "backup").split()
    code, out, _ = call(*words, "--who", "ada")  # the command that the refusal names
    assert code == 0 and "not bounded from now on" in out
    assert call("verify", path, "--head", head)[0] == 0
    _, out, _ = call("show", path)
    since = Ledger(path).signatures()[0].time
    assert f"not bounded since {since}" in out and "signed by ada: backup" in out
    assert row(out, str(path), "patient")[2:] == ["not", "bounded"] * 2 + ["1"]
    assert call(*words)[0] == 2  # it is whole now


def test_accept_signs_for_an_echo(paths, call) -> None:
    path, _ = paths
    charge(Ledger(path), 1)
    seen = f"7:{digest('lost')}"
    code, _, err = call("accept", path, "--why", "x", "--echo", "7")
    assert code == 2 and "COUNT:HASH" in err
    assert call("accept", path, "--why", "x", "--echo", seen)[0] == 0
    Ledger(path).check_echo(7, digest("lost"))
    assert Ledger(path).signatures()[0].who  # the login name


@pytest.mark.parametrize("command", ["show", "verify", "accept", "plan"])
def test_a_ledger_that_is_not_there_is_not_made(tmp_path, call, command: str) -> None:
    more = {"accept": ["--why", "x"], "plan": ["--cap", 8, "--q", 0.1]}.get(command, [])
    code, _, err = call(command, tmp_path / "absent", *more)
    assert code == 2 and "does not exist" in err and not (tmp_path / "absent").exists()


def test_plan_with_a_history(paths, call) -> None:
    charge(Ledger(paths[0]), 1)
    base = ["plan", paths[0], "--cap", 4, "--q", 0.1, "--json"]
    _, out, _ = call(*base, "--sigma", 2)
    found = json.loads(out)
    [plan] = found["plans"]
    assert found["spent"] == epsilon([SPEND], DELTA) and found["notes"] == []
    assert epsilon([SPEND, Spend(0.1, 2.0, plan["steps"])], DELTA) <= 4
    assert epsilon([SPEND, Spend(0.1, 2.0, plan["steps"] + 1)], DELTA) > 4
    _, out, _ = call(*base, "--steps", plan["steps"])
    [back] = json.loads(out)["plans"]
    assert back["sigma"] <= 2.0 * 1.001
    assert epsilon([SPEND, Spend(0.1, back["sigma"], plan["steps"])], DELTA) <= 4
    _, out, _ = call(*base)
    table = json.loads(out)["plans"]
    assert [one["sigma"] for one in table] == list(SIGMAS)
    assert [one["steps"] for one in table] == sorted(one["steps"] for one in table)
    assert plan in table
    code, out, _ = call(*base[:-1])
    assert code == 0 and row(out, "2")[1] == str(plan["steps"])


def test_plan_says_what_it_does_not_count(paths, call) -> None:
    charge(Ledger(paths[0]), 1, "none")
    code, out, _ = call("plan", paths[0], "--cap", 4, "--q", 0.1, "--sigma", 2)
    assert code == 0 and "patient: not bounded" in out and "spent 0 of 4" in out


def test_plan_for_windows_counts_patients_too(paths, call) -> None:
    ledger = Ledger(paths[0])
    words = ["plan", paths[0], "--cap", 8, "--q", 0.1, "--sigma", 2, "--unit", "window", "--json"]
    [before] = json.loads(call(*words)[1])["plans"]
    charge(ledger, 1)
    [after] = json.loads(call(*words)[1])["plans"]
    assert 0 < after["steps"] < before["steps"] - SPEND.steps


@pytest.mark.parametrize("words, message", [
    (["--cap", 0, "--q", 0.1], "cap is 0"),
    (["--cap", "inf", "--q", 0.1], "cap is inf"),
    (["--cap", 8, "--q", 0], "q is 0"),
    (["--cap", 8, "--q", 1.5], "q is 1.5"),
    (["--cap", 8, "--q", 0.1, "--unit", "visit"], "allowed: window, patient"),
    (["--cap", 8, "--q", 0.1, "--sigma", 1, "--steps", 1], "give one"),
    (["--cap", 8, "--q", 0.1, "--sigma", -1], "sigma is -1"),
    (["--cap", 8, "--q", 0.1, "--steps", 0], "steps is 0"),
    (["--cap", 8, "--q", 0.1, "--delta", 0], "delta is 0"),
])
def test_bad_plans(call, words, message: str) -> None:
    code, _, err = call("plan", *words)
    assert code == 2 and message in err


def test_no_noise_helps_what_is_spent(paths, call) -> None:
    charge(Ledger(paths[0]), 1)
    code, _, err = call("plan", paths[0], "--cap", 0.5, "--q", 0.1, "--steps", 10)
    assert code == 1 and f"spent {epsilon([SPEND], DELTA):.4g}, and 10 more steps end at" in err
    code, out, _ = call("plan", paths[0], "--cap", 0.5, "--q", 0.1, "--sigma", 100, "--json")
    assert code == 0 and json.loads(out)["plans"] == [{"sigma": 100.0, "steps": 0}]


def test_an_empty_history_agrees_with_calibrate() -> None:
    found = Plan("patient", [], 0.1, DELTA, 3.0).sigma(200)
    assert found == pytest.approx(calibrate([(0.1, 200, 1.0)], 3.0, DELTA), rel=3e-3)


def release(unit: str, steps: int) -> Release:
    return Release(1, "", "run", "rean", 1, unit, "hospital", 0.2, 3.0, steps, DELTA, digest("x"))


@settings(max_examples=25, deadline=None)
@given(units=st.lists(st.sampled_from(["window", "patient"]), max_size=3),
       unit=st.sampled_from(["window", "patient"]), sigma=st.sampled_from(SIGMAS),
       cap=st.floats(0.5, 20))
def test_what_is_planned_passes_the_cap_and_no_more(units, unit, sigma, cap) -> None:
    plan = Plan(unit, [release(one, 50) for one in units], 0.2, DELTA, cap)
    steps = plan.steps(sigma)
    assert steps == 0 or plan.total(sigma, steps) <= cap < plan.total(sigma, steps + 1)
    assert steps > 0 or plan.total(sigma, 1) > cap


def test_ends_of_the_plan() -> None:
    assert Plan("patient", [], 1e-9, DELTA, 9.0).steps(1000.0) == 10**9
    assert Plan("patient", [], 0.5, DELTA, 9.0).steps(0.0) == 0
    with pytest.raises(BudgetError, match="spent 0, and 10 more steps end at .* up to 4096"):
        Plan("patient", [], 0.01, DELTA, 0.01).sigma(10)
    with pytest.raises(InputError, match="unit is 'none'"):
        Plan("none", [], 0.5, DELTA, 9.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["show", "verify", "accept", "plan"])
def test_help(call, command: str) -> None:
    code, out, _ = call(command, "--help")
    assert code == 0 and "LEDGER" in out and "--help" in out and "\\[" not in out
