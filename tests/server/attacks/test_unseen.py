"""Attackers of three architectures, of one or more seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from server.attackers import ARCHITECTURES
from server.attacks import unseen
from tests.server.attacks.waves import PATIENTS, bundles, case, some_missing


def test_strong_on_clean_and_at_chance_on_a_constant(tmp_path: Path) -> None:
    evidence = bundles()
    evidence.released[:] = 0.5
    found = unseen.attack(case(tmp_path, evidence, steps=40))
    assert list(found) == list(ARCHITECTURES)
    for row in found.values():
        assert row["clean"]["reid"].value > 0.8
        assert not any("reaches reid" in line for line in row["flags"])
        assert row["released"]["reid"].value == 1 / PATIENTS


def test_seeds_are_networks_of_their_own_and_the_first_is_the_attacker(tmp_path: Path) -> None:
    trial = case(tmp_path, some_missing(bundles()), steps=1, seeds=2)
    found = unseen.attack(trial)
    assert list(found) == [*ARCHITECTURES, *(f"{name}-1" for name in ARCHITECTURES)]
    files = {path.stem for path in tmp_path.glob("*.safetensors")}
    assert files == {"clean", *(f"clean-{name}" for name in found if name != "resnet1d")}
    scores = trial.attacker.answers(trial.bundles.clean[:3])["reid"]
    assert np.isfinite(scores).all() and found["resnet1d"]["released"]["reid"].n == 56
    assert any("below 0.5" in line for line in found["cnn_lstm"]["flags"])
