"""The study of orthogonality, as small as it can be; and who may be called an attacker."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedrean
from common.errors import InputError
from server import attackers
from server.attackers import ARCHITECTURES, Attacker
from server.run_directory import open_run
from simulations.studies import orthogonality
from simulations.studies.bench import pooled_run
from simulations.studies.orthogonality import Answer, learned, study, unlearned
from simulations.studies.orthogonality_page import interval, write_page

PARTS = {"bundled", "identity", "sex", "age"}


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedrean", "study", "orthogonality", *words])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    return int(left.value.code or 0)


def test_a_study_its_page_and_going_on(pooled: tuple[Path, Path],
                                       monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = pooled
    words = ["--run-dir", str(folder), "--data-dir", str(data), "--windows"]
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, *words, "30") == 0
    printed = capsys.readouterr().out
    assert "30 of " in printed and max(map(len, printed.split("page:")[0].splitlines())) <= 80
    results = json.loads((folder / "orthogonality.json").read_text())
    assert results["windows"] == results["asked"] == 30 < results["available"]
    assert results["samples"] == 400
    assert set(results["angles"]) == {"frozen", *ARCHITECTURES}
    for name, parts in results["angles"].items():
        assert set(parts) == PARTS
        for part in parts:
            leaf = parts[part]["angle"]
            assert 0 < leaf["n"] <= 30 and leaf["chance"] == 90 and 60 < leaf["value"] < 120
        assert all(0 <= leaf["value"] <= 1 for leaf in results["clean"][name].values())
    assert set(results["steps"]["privacy"]) == {"0.01", "0.02", "0.05", "0.1"}
    page = (folder / "orthogonality.html").read_text()
    assert page.count("<svg") == 6 and "random vectors give too" in page
    assert "Did not learn" in page and "89.95" in page  # 20 steps teach nobody; Table I
    # More windows than there are: all of them. Nothing is trained again.
    monkeypatch.setattr(attackers, "train", lambda *_: pytest.fail("trained again"))
    assert run(monkeypatch, *words, "99999", "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again == json.loads((folder / "orthogonality.json").read_text())
    assert again["windows"] == again["available"] == results["available"]
    assert "99999" in (folder / "orthogonality.html").read_text()
    # Networks that have learned are not flagged.
    for parts in again["clean"].values():
        for leaf in parts.values():
            leaf["value"] = 0.99
    assert "Did not learn" not in write_page(folder, again).read_text()


def test_attackers_number_patients_as_the_frozen_head_does(
        pooled: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data = pooled
    done = pooled_run(folder, open_run(folder), data, lambda what: None)
    seen = []

    def untrained(bundles: Any, windows: Any, *_: object, architecture: str) -> Attacker:
        assert np.array_equal(windows, done.bundles.clean)
        seen.append(bundles.patient)
        return Attacker(4, 1, int(bundles.patient.max()) + 1, architecture)

    monkeypatch.setattr(orthogonality, "train_attacker", untrained)
    found = orthogonality._attackers(done, lambda what: None)
    assert set(found) == set(ARCHITECTURES) and len(seen) == len(ARCHITECTURES)
    assert all(np.array_equal(numbers, done.data.identity) for numbers in seen)
    assert not any(p.requires_grad for p in found["cnn_lstm"]["identity"].parameters())


def test_answers_of_one_attacker_side_by_side_are_its_logits() -> None:
    attacker, x = Attacker(4, 1, 3).eval(), torch.rand(2, 1, 400)
    answers = [Answer(attacker, name)(x) for name in ("identity", "sex", "age")]
    assert [a.shape[1] for a in answers] == [3, 2, 5]
    assert torch.equal(torch.cat(answers, dim=1), attacker(x))


def test_windows_without_labels_are_refused(pooled: tuple[Path, Path],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data = pooled
    done = pooled_run(folder, open_run(folder), data, lambda what: None)
    nobody = replace(done, data=replace(done.data, sex=np.full(len(done.data), -1)))
    monkeypatch.setattr(orthogonality, "pooled_run", lambda *_: nobody)
    with pytest.raises(InputError, match="none has all its labels.*at least 1 is needed"):
        study(folder, done.settings, data, 20, lambda what: None)
    assert not (folder / "orthogonality.json").exists()


@pytest.mark.parametrize(("value", "chance", "yes"), [
    (0.61, 0.2, True), (0.59, 0.2, False), (0.8, 0.5, True), (0.7, 0.5, False),
    (None, 0.5, False)])
def test_half_of_the_way_from_chance_is_learning(value: float | None, chance: float,
                                                 yes: bool) -> None:
    assert learned({"value": value, "chance": chance}) is yes


def test_a_bundle_is_as_weak_as_its_weakest_and_all_rest_on_the_diagnosis() -> None:
    def leaf(value: float) -> dict[str, float]:
        return {"value": value, "chance": 0.2}

    clean = {"diagnosis": {"macro_auroc": leaf(0.9)},
             "frozen": {"identity": leaf(0.9), "sex": leaf(0.3), "age": leaf(0.9)}}
    assert unlearned({"clean": clean}, "frozen", "bundled") == ["sex"]
    assert unlearned({"clean": clean}, "frozen", "identity") == []
    clean["diagnosis"] = {"macro_auroc": leaf(0.3)}
    assert unlearned({"clean": clean}, "frozen", "identity") == ["diagnosis"]


def test_intervals_as_text() -> None:
    leaf = {"value": -0.066, "low": -0.08, "high": 0.01}
    assert interval(leaf, 2) == "-0.07 [-0.08, 0.01]"
    assert interval({**leaf, "low": None}, 3) == "-0.066"
    assert interval(None, 3) == interval({**leaf, "value": None, "low": None}, 3) == "-"


@pytest.mark.parametrize(("words", "line"), [
    (["--windows", "0"], "windows is 0; allowed is 1 or more"),
    (["training=federated"], "training is 'federated', privacy.unit 'none'; allowed here: pooled"),
])
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                   capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    assert run(monkeypatch, *words, "--run-dir", str(tmp_path / "s"),
               "--data-dir", str(tmp_path / "d")) == 2
    assert line in capsys.readouterr().err
