"""A label that was written into the signal is flagged; a release that changes nothing is not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.ecg.beats import Beats
from server.attackers import ARCHITECTURES
from server.attacks import utility
from server.bundles import Bundles
from tests.server.attacks.waves import bundles, case, some_missing

CLASS = np.arange(128) // 4 % 4


def frozen(clean: float, released: float) -> dict[str, Any]:
    """Answers of two hospitals' frozen networks: so much of the label, in the test half only."""
    generator = np.random.default_rng(0)
    answers = {}
    for version, strength in (("clean", clean), ("released", released)):
        test = (np.arange(128) >= 64)[:, None]
        scores = generator.normal(size=(128, 4)) + strength * np.eye(4)[CLASS] * test
        answers[f"diagnosis-{version}"] = [scores[:50].astype(np.float32),
                                           scores[50:].astype(np.float32)]
    return answers


@pytest.fixture(autouse=True)
def few_delineated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("waves_agree", "classes_agree"):
        monkeypatch.setattr(utility, name, partial(getattr(utility, name), most=4))


def attacked(folder: Path, evidence: Bundles, steps: int = 1) -> dict[str, Any]:
    return utility.attack(case(folder, evidence, steps))


def test_a_label_written_for_the_frozen_network_is_flagged(tmp_path: Path) -> None:
    found = attacked(tmp_path, bundles(frozen=frozen(0.5, 3)))
    group = found["patients"]["in training"]
    assert set(group["networks"]) == {"frozen", "retrained", *ARCHITECTURES}
    for name in ("retrained", *ARCHITECTURES):  # what was released are the clean windows
        assert group["networks"][name]["gain"].value == 0
    assert group["networks"]["frozen"]["gain"].low > 0.1 and group["excess"].low > 0.1
    assert group["excess"].value == group["networks"]["frozen"]["gain"].value
    written = [line for line in found["flags"] if "was written into the signal" in line]
    assert len(written) == 2 and all("frozen network" in line for line in written)


def test_an_honest_loss_is_not_flagged(tmp_path: Path) -> None:
    found = attacked(tmp_path, bundles(frozen=frozen(3, 2.5)))
    assert found["patients"]["in training"]["networks"]["frozen"]["gain"].value < 0
    assert not any("written" in line for line in found["flags"])
    assert sum("cannot judge utility" in line for line in found["flags"]) == 3


def test_a_label_that_anyone_can_read_is_flagged_by_who_retrains(tmp_path: Path) -> None:
    """Clean amplitudes are the same in all classes; the release adds a step as high as the class.
    """
    evidence = bundles()
    evidence.clean[:] = 0.5 + 0.2 * (evidence.clean - 0.5) / (0.1 + 0.1 * CLASS[:, None, None])
    evidence.released[:] = evidence.clean
    evidence.released[:, :, :64] += 0.1 * CLASS[:, None, None]
    found = attacked(tmp_path, evidence, steps=40)
    row = found["patients"]["in training"]["networks"]["retrained"]
    assert row["released"]["macro_auroc"].value > 0.8 and row["gain"].low > 0.2
    assert any("the retrained network's macro-AUROC" in line for line in found["flags"])


def test_independent_networks_learn_the_class(tmp_path: Path) -> None:
    evidence = bundles()
    evidence.released[:] = 0.5
    found = attacked(tmp_path, evidence, steps=40)
    assert "frozen" not in found["patients"]["in training"]["networks"]  # two folders have none
    assert "excess" not in found["patients"]["in training"]
    for name in ARCHITECTURES:
        row = found["patients"]["in training"]["networks"][name]
        assert row["clean"]["macro_auroc"].value > 0.8
        assert row["released"]["macro_auroc"].value == 0.5 and row["gain"].high < -0.2
    assert found["waves"]["failed"]["released"].value == 1


def test_reserved_patients_and_what_was_not_released(tmp_path: Path) -> None:
    evidence = some_missing(bundles(reserved=np.arange(128) % 4 == 3))
    found = attacked(tmp_path, evidence)
    sizes = {name: group["networks"]["cnn_lstm"]["released"]["arrhythmia_accuracy"].n
             for name, group in found["patients"].items()}
    assert sizes == {"in training": 40, "reserved": 16}
    assert found["waves"]["windows"] == found["beats"]["windows"] == 4
    assert np.isfinite(found["patients"]["in training"]["networks"]["retrained"]["gain"].value)


def test_a_classifier_of_annotated_beats_answers_where_there_are_any(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught = []

    class Taught:
        def __init__(self, data: Any, seed: int) -> None:
            taught.append(data)

        def classify(self, lead: Any, time: Any, rate: float) -> Any:
            return np.full(len(time), 2)  # V, which the rule of RR intervals never says

    monkeypatch.setattr(utility, "BeatClassifier", Taught)
    beats = Beats(np.arange(0, 513, 4), np.tile([0.2, 0.4, 0.6, 0.8], 128), np.zeros(512, int))
    found = attacked(tmp_path, bundles(beats=beats))
    assert set(found["beats"]["kept"]) == {"V"}
    assert len(taught[0]) == len(taught[0].beats) == 64  # the training half


def test_annotated_beats_are_the_measure_where_there_are_any(tmp_path: Path) -> None:
    time = np.tile([0.2, 0.4, 0.6, 0.8], 128)
    beats = Beats(np.arange(0, 513, 4), time, np.arange(512) % 4 // 3 * 2)  # the last one is a V
    evidence = bundles(beats=beats)
    evidence.released[:] = 0.5
    found = attacked(tmp_path, evidence)
    for tree in (found["beats"]["annotated"], found["waves"]["annotated"]):
        assert set(tree) == {"clean", "released"}
    assert set(found["beats"]["annotated"]["clean"]) == {"N", "V"}
    assert found["beats"]["annotated"]["released"]["N"].value == 0
    assert found["waves"]["annotated"]["released"]["sensitivity"].value == 0
