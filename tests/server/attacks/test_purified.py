"""What a purifier brings back is known where the release is made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from common.audits.purifiers import FILTERS
from server.attacks import purified, restorers
from server.attacks.restorers import NOISE, noise
from tests.server.attacks.waves import LENGTH, PATIENTS, bundles, case, some_missing

NAMES = ["none", *FILTERS, "denoiser", "restorer"]


def test_the_restorer_undoes_a_known_ripple(tmp_path: Path) -> None:
    evidence = bundles(96)
    ripple = 0.6 * np.sin(2 * np.pi * 24 * np.linspace(0, 1, LENGTH))
    evidence.released[:] = evidence.clean + ripple.astype(np.float32)
    found = purified.attack(case(tmp_path, evidence, steps=60))
    assert list(found) == NAMES
    none, restored = found["none"]["released"], found["restorer"]["released"]
    assert found["none"]["clean"]["reid"].value > 0.9 and found["none"]["clean"]["prd"].value == 0
    assert none["reid"].value < 0.6 and none["prd"].value > 70
    assert restored["reid"].value > 0.9 and restored["prd"].value < 12
    # 24 waves in 1.28 s are 19 Hz, below the low-pass; clean windows lose little by any.
    assert found["low_pass"]["released"]["prd"].value == pytest.approx(none["prd"].value, rel=0.05)
    assert all(found[name]["clean"]["prd"].value < 6 for name in (*FILTERS, "denoiser"))


def test_a_constant_release_gives_chance_whatever_the_purifier(tmp_path: Path) -> None:
    evidence = bundles()
    evidence.released[:] = 0.5
    found = purified.attack(case(tmp_path, evidence, steps=30))
    for row in found.values():
        reid = row["released"]["reid"]
        assert reid.value == reid.chance == 1 / PATIENTS and row["released"]["sex"].value == 0.5
    assert found["median"]["clean"]["reid"].value > 2 / PATIENTS


def test_what_was_not_released_takes_no_part(tmp_path: Path) -> None:
    found = purified.attack(case(tmp_path, some_missing(bundles()), steps=2))
    for row in found.values():
        for version in ("released", "clean"):
            assert row[version]["reid"].n == row[version]["prd"].n == 56
            assert np.isfinite(row[version]["prd"].value)


def test_a_filter_that_the_rate_does_not_allow_is_named(tmp_path: Path) -> None:
    found = purified.attack(case(tmp_path, bundles(), steps=1, rate=50))
    assert set(found["low_pass"]) == {"skipped"} and "25 Hz" in found["low_pass"]["skipped"]
    assert all("skipped" not in found[name] for name in NAMES if name != "low_pass")


def test_trained_purifiers_are_kept(tmp_path: Path) -> None:
    first = purified.attack(case(tmp_path, bundles(), steps=3))
    again = purified.attack(case(tmp_path, bundles(), steps=1))  # loads, does not train
    assert first == again


def test_the_denoiser_never_sees_a_release(tmp_path: Path) -> None:
    weights = []
    for name, level in (("a", 0.0), ("b", 1.0)):
        evidence = bundles(released=np.full((128, 1, LENGTH), level, dtype=np.float32))
        network = restorers.denoiser(case(tmp_path / name, evidence, steps=2))
        weights.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(*weights)


def test_noise_is_as_strong_as_it_says_white_or_coloured() -> None:
    torch.manual_seed(0)
    silence, steep = torch.zeros(64, 1, 4000), []
    for _ in range(20):
        drawn = noise(silence, 10)
        size = drawn.std(dim=2)
        assert size.max() < 1.3 * NOISE and abs(size.mean() - NOISE / 2) < 0.02
        steep.append(float(drawn.diff(dim=2).std() / drawn.std()))
    assert max(steep) > 1.3 and min(steep) < 0.6  # sqrt(2) is white
    assert noise(silence[:, :, :50], 1).shape == (64, 1, 50)
