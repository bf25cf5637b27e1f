"""The study of REAN: how a bound is chosen, what an ablation leaves, and that it goes on."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedrean
from common.anonymizers.rean import ReanAnonymizer, rean_loss
from common.config import Rean
from simulations.studies import rean
from simulations.studies.rean import TERMS, ablated, choose_bound, excess
from simulations.studies.rean_page import verdict
from tests.common.anonymizers.test_rean import batch, frozen
from tests.small import STUDY


def made_up(reid: float, sex: float, age: float, prd: float) -> dict[str, Any]:
    """A row whose intervals reach .1 below and above the values."""
    def leaf(value: float, chance: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1, "chance": chance}

    return {"training_signal": {"reid": leaf(reid, 0.02), "sex": leaf(sex, 0.5),
                                "age": leaf(age, 0.2)}, "prd": {"value": prd}}


def test_the_smallest_bound_that_meets_both_conditions() -> None:
    rows = {0.16: made_up(0.0, 0.2, 0.1, 8.0), 0.04: made_up(0.3, 0.5, 0.2, 3.0),
            0.08: made_up(0.1, 0.58, 0.25, 5.0), 0.32: made_up(0.0, 0.5, 0.2, 9.0)}
    assert choose_bound(rows) == rean.Choice(0.08, True)
    assert excess(rows[0.32]) > 0  # the band does not hold its upper end


@pytest.mark.parametrize("attribute", [0, 1, 2, 3])
def test_every_condition_counts(attribute: int) -> None:
    good, bad = [0.0, 0.5, 0.2, 5.0], [0.2, 0.7, 0.4, 9.5]
    row = made_up(*(bad[i] if i == attribute else good[i] for i in range(4)))
    assert choose_bound({0.02: row, 0.08: made_up(*good)}) == rean.Choice(0.08, True)
    assert choose_bound({0.02: row}) == rean.Choice(0.02, False)


def test_none_qualifies_then_the_nearest_and_the_page_says_so() -> None:
    rows = {0.02: made_up(0.9, 0.9, 0.9, 2.0), 0.08: made_up(0.2, 0.5, 0.2, 9.5),
            0.16: made_up(0.1, 0.5, 0.2, 30.0)}
    choice = choose_bound(rows)
    assert choice == rean.Choice(0.08, False)
    results = {"bound": {"chosen": choice.bound, "qualifies": choice.qualifies, "band": 9.0},
               "clean": {"validation": made_up(0.9, 0.55, 0.9, 0.0)}}
    assert verdict(results).startswith("No bound qualifies. The nearest is 0.08")
    assert "At chance on clean windows already: sex." in verdict(results)


@given(st.dictionaries(st.floats(0.01, 1), st.tuples(*[st.floats(0, 1)] * 3, st.floats(0, 40)),
                       min_size=1, max_size=6))
def test_a_choice_is_never_farther_than_another(table: dict[float, tuple[float, ...]]) -> None:
    rows = {bound: made_up(*values) for bound, values in table.items()}
    choice = choose_bound(rows)
    assert excess(rows[choice.bound]) == min(map(excess, rows.values()))
    assert choice.qualifies == any(excess(row) == 0 for row in rows.values())
    assert all(excess(rows[bound]) > excess(rows[choice.bound]) for bound in rows
               if bound < choice.bound)


@pytest.mark.parametrize("terms", TERMS)
def test_a_term_left_out_is_not_in_the_loss(terms: str) -> None:
    """The loss moves with a term's weights only where the term is named."""
    base = Rean(utility=1.0, privacy=2.0, prd=3.0, l1=4.0, bound=0.04, ceiling=5.0)
    torch.manual_seed(0)
    network, windows, networks = torch.nn.Conv1d(1, 1, 5, padding=2), batch(), frozen()

    def loss(settings: Rean) -> torch.Tensor:
        return rean_loss(network, windows, networks, ablated(settings, terms)).detach()

    for term, name in (("U", "utility"), ("P", "privacy"), ("D", "prd"), ("D", "l1")):
        other = Rean(**{**asdict(base), name: 7.0})
        assert torch.equal(loss(other), loss(base)) == (term not in terms)
    kept = asdict(ablated(base, terms))
    assert {key: kept[key] for key in ("bound", "ceiling", "target")} == {
        "bound": 0.04, "ceiling": 5.0, "target": "away"}


def run(folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", [
        "fedrean", "study", "rean", *STUDY, "--bounds", ".08,.04", "--trials", "2", "--steps", "2",
        "--fit-steps", "3", "--run-dir", str(folder), "--data-dir", str(data), *words])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    return int(left.value.code or 0)


def test_a_study_its_page_and_how_it_goes_on(pooled: tuple[Path, Path],
                                             monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = pooled
    fits: list[tuple[Rean, int]] = []
    fit = ReanAnonymizer.fit

    def counted(self: ReanAnonymizer, train: Any, frozen: Any, effort: Any) -> None:
        fits.append((self.settings, effort.steps))
        if len(fits) == 7:  # within the second search
            raise KeyboardInterrupt
        fit(self, train, frozen, effort)

    monkeypatch.setattr(ReanAnonymizer, "fit", counted)
    assert run(folder, data, monkeypatch) != 0 and not (folder / "rean.json").exists()
    assert run(folder, data, monkeypatch) == 0
    # Two bounds, three searches of two trials, three targets and seven combinations.
    assert len(fits) == 1 + 2 + 6 + 3 + 7
    results = json.loads((folder / "rean.json").read_text())
    capsys.readouterr()

    chosen = results["bound"]["chosen"]
    assert [row["bound"] for row in results["bound"]["tried"]] == [0.04, 0.08]
    assert {steps for settings, steps in fits[7:9]} == {2}
    assert {settings.bound for settings, _ in fits[2:]} == {chosen}
    for target, found in results["search"].items():
        own, best = found["trials"][0], min(found["trials"], key=lambda one: one["d_sym"])
        assert len(found["trials"]) == 2 and found["d_sym"] == best["d_sym"]
        assert own["privacy"] == results["config"]["rean"]["privacy"]  # the run's own come first
        asked = results["targets"][target]["asked"]["rean"]
        assert asked["target"] == target and asked["bound"] == chosen
        assert {key: asked[key] for key in found["settings"]} == found["settings"]
    for terms, row in results["ablation"].items():
        asked = row["asked"]["rean"]
        for term, name in (("U", "utility"), ("P", "privacy"), ("D", "prd"), ("D", "l1")):
            assert (asked[name] > 0) == (term in terms)
    whole, away = results["ablation"]["UPD"]["asked"], results["targets"]["away"]["asked"]
    assert whole["rean"] == away["rean"]
    assert (whole["start"], away["start"]) == ("new_rean", "make_rean")
    page = (folder / "rean.html").read_text()
    assert page.count("<svg") == 2 and "UPD paper" in page and "rean.target=decoy" in page

    # Only what was asked otherwise is fitted again, and comes out the same.
    kept = folder / "rean" / "PD-away.json"
    row = json.loads(kept.read_text())
    kept.write_text(json.dumps({**row, "asked": {**row["asked"], "steps": 2}, "d": 9}))
    fits.clear()
    assert run(folder, data, monkeypatch, "--json") == 0
    assert [(settings.utility, steps) for settings, steps in fits] == [(0, 3)]
    assert json.loads(capsys.readouterr().out) == results


@pytest.mark.parametrize(("words", "line"), [
    (["--bounds", ".1,x"], "bounds is '.1,x'; allowed are numbers in (0, 1] with commas"),
    (["--bounds", "2"], "rean.bound is 2.0; allowed: (0, 1]"),
    (["--trials", "0"], "trials is 0; allowed is 1 or more"),
])  # fmt: skip
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                   capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    assert run(tmp_path / "s", tmp_path / "d", monkeypatch, *words) == 2
    assert line in capsys.readouterr().err
