"""Beats whose class is known by their time: an early one is supraventricular."""

from __future__ import annotations

import numpy as np
import pytest

from common.anonymizers.beat_classifier import premature
from common.audits.beat_classes import classes_agree
from common.ecg.beats import Beats
from common.errors import InputError
from tests.common.ecg.drawn import RATE, drawn

PATIENT = np.array([0, 0, 1, 1])
EARLY = 4  # of the beats, the one that comes early


def windows(early: float) -> np.ndarray:
    """Four windows of regular beats, one of them early by a share of the RR interval."""
    made = []
    for rr in (0.7, 0.75, 0.8, 0.85):
        times = 0.5 + rr * np.arange(8)
        times[EARLY] -= early * rr
        made.append(drawn(times))
    return np.stack(made)


def agree(clean: np.ndarray, released: np.ndarray) -> dict:
    return classes_agree(clean, released, RATE, PATIENT, lambda lead, t, rate: premature(t))


def test_the_same_windows_agree_and_chance_is_below() -> None:
    found = agree(windows(0.3), windows(0.3))
    assert found["windows"] == 4 and found["agreement"].value == 1
    assert found["agreement"].n == 32
    assert found["agreement"].chance == pytest.approx((28 / 32) ** 2 + (4 / 32) ** 2)
    assert set(found["kept"]) == {"N", "S"}
    assert found["kept"]["S"].value == 1 and found["kept"]["S"].n == 4
    assert found["kept"]["S"].chance == pytest.approx(4 / 32)


def test_a_release_that_is_regular_again_loses_the_early_beats() -> None:
    found = agree(windows(0.18), windows(0.0))  # 0.18 of 0.85 s is 153 ms: some are matched
    assert found["kept"]["S"].value == 0 and found["kept"]["N"].value == 1
    assert found["agreement"].value < 1


def test_a_constant_release_keeps_nothing() -> None:
    found = agree(windows(0.3), np.full_like(windows(0.3), 0.5))
    assert found["kept"]["S"].value == found["kept"]["N"].value == 0
    assert found["agreement"].n == 0 and np.isnan(found["agreement"].value)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="released is"):
        agree(windows(0.3), windows(0.3)[:2])


def test_annotated_beats_judge_both_versions() -> None:
    times = [0.5 + rr * np.arange(8) for rr in (0.7, 0.75, 0.8, 0.85)]
    for time, rr in zip(times, (0.7, 0.75, 0.8, 0.85), strict=True):
        time[EARLY] -= 0.3 * rr
    kinds = np.tile(np.where(np.arange(8) == EARLY, 1, 0), 4)
    beats = Beats(np.arange(0, 33, 8), np.concatenate(times), kinds)
    found = classes_agree(windows(0.3), windows(0.0), RATE, PATIENT,
                          lambda lead, t, rate: premature(t), beats=beats)["annotated"]
    assert found["clean"]["S"].value == found["clean"]["N"].value == 1
    assert found["clean"]["S"].n == 4 and found["released"]["S"].value == 0
