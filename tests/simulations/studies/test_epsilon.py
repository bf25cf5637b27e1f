"""A grid of two real runs, as small as they can be, then levers that start from one of them."""

import csv
import json
import math

import pytest
from typer.testing import CliRunner

import fedrean
from simulations.studies import levers
from simulations.studies.epsilon import asked, lines, study, varies
from simulations.studies.figures_of_cells import FIGURES, NOTHING, figures, table
from simulations.studies.levers import BEST, PUBLIC, public_run, variants
from tests.small import STUDY

TINY = [*STUDY, "privacy.q=0.5", "privacy.public=2", "audit.attacks=[membership]"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("epsilon")
    words = [*TINY, "privacy=patient,window", "privacy.epsilon=3,inf",
             "privacy.trust=aggregate"]
    results = study(folder / "study", words, folder / "data", 2, lambda line: None)
    return folder, results


def test_what_makes_no_sense_is_refused_and_the_rest_is_run(finished):
    _, results = finished
    assert len(results["refused"]) == 1 and "window" in results["refused"][0]
    assert results["failed"] == 0
    assert {(row["asked"], row["varies"]["privacy"]) for row in results["rows"]} == {
        (3.0, "patient"), (math.inf, "patient"), (math.inf, "window")}


def test_the_account_of_each_cell_is_the_one_that_was_asked(finished):
    _, results = finished
    for row in results["rows"]:
        if row["asked"] == 3:
            assert 2.9 < row["spent"]["patient"] <= 3 and "sum" in row["noise"]
        else:
            assert row["spent"]["patient"] is None


def test_the_table_holds_every_figure(finished):
    folder, results = finished
    rows = list(csv.DictReader((folder / "study" / "cells.csv").open()))
    assert len(rows) == 3 and {row["privacy.epsilon"] for row in rows} == {"3", "inf"}
    first = results["rows"][0]
    assert float(rows[0]["reid value"]) == first["figures"]["reid"]["value"]
    assert float(rows[0]["retrained chance"]) == pytest.approx(
        first["figures"]["retrained"]["chance"])


def test_the_command_takes_what_is_there_and_writes_a_page(finished):
    folder, _ = finished
    words = [*TINY, "privacy=patient", "privacy.epsilon=3,inf", "privacy.trust=aggregate"]
    result = CliRunner().invoke(fedrean.app, [
        "study", "epsilon", *words, "--run-dir", str(folder / "study"), "--data-dir",
        str(folder / "data")])
    assert result.exit_code == 0, result.output
    assert "2 of 2 cells were finished before" in result.output  # under other names
    page = (folder / "study" / "epsilon.html").read_text()
    assert "∞" in page and "privacy.epsilon=3,inf" in page


def test_lines_join_what_differs_in_epsilon_and_seed_alone():
    rows = [{"varies": {"privacy": unit, "privacy.epsilon": e, "seed": s}, "asked": float(e),
             "figures": {}} for unit in ("patient", "window") for e in ("8", "1") for s in "01"]
    found = lines(rows)
    assert list(found) == ["privacy=patient", "privacy=window"]
    assert [row["asked"] for row in found["privacy=patient"]] == [1, 1, 8, 8]
    assert varies([["a=1", "b=1"], ["a=1", "b=2"]]) == ["b"]
    assert asked(["privacy.epsilon=2"]) == 2 and asked([]) == math.inf


def test_a_failed_cell_is_a_row_with_its_problem():
    text = table([{"varies": {"seed": "1"}, "problem": "out of memory"}])
    row = next(csv.DictReader(text.splitlines()))
    assert row["problem"] == "out of memory" and row["reid value"] == ""


def test_what_was_not_measured_is_nothing():
    leaf = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "chance": None}
    tree = {"clean": {"reid": leaf}, "anonymizers": {"rean": {
        "reid": leaf, "retrained": {"100": {"resnet1d": {"reid": leaf}}},
        "training_signal": {"reid": leaf}}}}
    found = figures(tree)
    assert set(found) == set(FIGURES)
    assert found["diagnosis"] == found["membership"] == NOTHING and found["retrained"] == leaf


def test_levers_are_compared_with_the_public_weights(finished, monkeypatch):
    folder, _ = finished
    start = public_run(folder / "levers", TINY, 16, folder / "data", lambda line: None)
    few = variants(start, levers.compose_settings(["privacy=patient", *TINY]))
    assert "privacy.q=0.25" in few[f"{BEST}, q / 2"][1]
    monkeypatch.setattr(levers, "variants", lambda public, settings: {
        name: few[name] for name in (PUBLIC, BEST)})
    found = levers.study(folder / "levers", [*TINY, "cohort.shift=1"], start, folder / "data", 2,
                         lambda line: None)
    free, best = found["rows"]
    assert free["spent"]["patient"] == 0 and "gain" not in free
    assert 7 < best["spent"]["patient"] <= 8
    difference = best["figures"]["diagnosis"]["value"] - free["figures"]["diagnosis"]["value"]
    assert best["gain"].value == pytest.approx(difference, abs=1e-6)
    saved = json.loads((folder / "levers" / "results.json").read_text())
    assert saved["rows"][1]["gain"]["value"] == pytest.approx(difference, abs=1e-6)
