"""The row of aggregates: which attacker is chosen, what is counted, and that it goes on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier

from common.anonymizers.aggregates import NAMES
from common.anonymizers.contract import Labelled
from common.config import Settings
from common.ecg.beats import no_beats
from common.protocol import PARTS
from common.results import to_plain
from simulations.studies import aggregates
from simulations.studies.aggregates import aggregates_row, delineated, targets, tell
from tests.common.ecg.drawn import RATE, drawn, regular

PEOPLE, EACH = 4, 30
FAST = {"dummy": lambda seed: DummyClassifier(),
        "trees": lambda seed: ExtraTreesClassifier(20, random_state=seed)}


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    """Four patients of other mean RR and R amplitude; 20 training, 5 validation, 5 test windows."""
    generator, n = np.random.default_rng(0), PEOPLE * EACH
    patient = np.repeat(np.arange(PEOPLE), EACH)
    features = generator.normal(size=(n, len(NAMES))).astype(np.float32)
    features[:, 1] = 700 + 100 * patient + generator.normal(0, 20, n)
    features[:, 11] = patient % 2 + generator.normal(0, 0.1, n)
    features[::7, 9] = np.nan
    part = np.tile(np.repeat(np.arange(len(PARTS)), (20, 5, 5)), PEOPLE)
    bundles = SimpleNamespace(
        patient=patient, sex=np.where(patient < 3, patient % 2, -1), age=patient,
        allowed=np.where(generator.random(n) < 0.5, 1, 4).astype(np.uint8),
        rows=lambda name: np.flatnonzero(part == PARTS.index(name)))
    features[:, 2] = np.where(bundles.allowed == 4, 200, 20) + generator.normal(0, 5, n)
    file = tmp_path / "methods" / "aggregates" / "released.npy"
    file.parent.mkdir(parents=True)
    np.save(file, features)
    return SimpleNamespace(bundles=bundles, folder=tmp_path, settings=Settings(), data=range(n),
                           sets={"shared 500": bundles.rows("test")})


def test_the_row_looks_like_that_of_the_other_methods(bench, monkeypatch):
    monkeypatch.setattr(aggregates, "_CANDIDATES", FAST)
    monkeypatch.setattr(aggregates, "delineated", lambda *_: pytest.fail("delineated again"))
    told: list[str] = []
    row = aggregates_row(bench, told.append)
    on, retrained = row["shared 500"], row["retrained"]["shared 500"]
    assert on["reid"].value > 0.6 and on["reid"].chance == 1 / PEOPLE and on["reid"].n == 20
    assert on["identification"].value > 0.6 and on["sex"].n == 15
    assert retrained["diagnosis"]["macro_auroc"].value > 0.95
    assert {name: on[name] for name in ("reid", "sex", "age")} == {
        name: retrained[name] for name in ("reid", "sex", "age")}
    assert all(on[name] is None for name in ("training_signal", "frozen", "independent", "prd"))
    assert row["missing"]["QT (ms)"].value == pytest.approx(1 / 7, abs=0.01)
    assert row["classifiers"]["reid"]["name"] == "trees" and any("reid" in line for line in told)
    to_plain(row)


def test_nothing_but_the_training_part_is_learned_from(bench, monkeypatch):
    monkeypatch.setattr(aggregates, "_CANDIDATES", FAST)
    features = np.load(bench.folder / "methods" / "aggregates" / "released.npy")
    bundles = bench.bundles
    scores, _ = tell(targets(bundles)["reid"], features, bundles.rows("train"),
                     bundles.rows("validation"), 0)
    changed = features.copy()
    changed[bundles.rows("test")] = 0
    again, _ = tell(targets(bundles)["reid"], changed, bundles.rows("train"),
                    bundles.rows("validation"), 0)
    others = np.r_[bundles.rows("train"), bundles.rows("validation")]
    assert (scores[others] == again[others]).all()


def test_a_class_that_training_lacks_has_no_score(bench, monkeypatch):
    monkeypatch.setattr(aggregates, "_CANDIDATES", FAST)
    bench.bundles.age[:] = 4
    bench.bundles.age[:EACH] = 1
    features = np.load(bench.folder / "methods" / "aggregates" / "released.npy")
    scores, _ = tell(targets(bench.bundles)["age"], features, bench.bundles.rows("train"),
                     bench.bundles.rows("validation"), 0)
    assert scores.shape == (PEOPLE * EACH, 5) and not scores[:, [0, 2, 3]].any()


def test_processes_keep_the_order_of_windows(monkeypatch):
    monkeypatch.setattr(aggregates, "_PIECE", 2)
    x = np.stack([drawn(regular(rr)) for rr in (0.6, 0.8, 1.0, 0.7, 0.9)])
    zeros = np.zeros(5, dtype=np.int64)
    told: list[str] = []
    found = delineated(Labelled(x, RATE, zeros, zeros, zeros, zeros, zeros, no_beats(5)), 2,
                       told.append)
    assert found[:, 1] == pytest.approx([600, 800, 1000, 700, 900], abs=5)
    assert len(told) == 3 and told[-1] == "aggregates: 5 of 5 windows delineated"
