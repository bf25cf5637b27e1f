"""Windows from beats: scaled, disturbed as others' recordings are, fibrillating where they do."""

from __future__ import annotations

import numpy as np
import pytest

from common.anonymizers.beat_classifier import NORMAL
from common.anonymizers.beat_cutting import since_r
from common.anonymizers.rendering import Levels, learn_levels, render
from common.anonymizers.rhythm import Rhythm


def drawn(fibrillates, disturbance, seed=0):
    shape = np.exp(-((since_r(82, 100.0) / 0.02) ** 2))[None]
    time = np.arange(0.5, 8.0)
    rhythm = Rhythm(time, np.full(len(time), NORMAL), fibrillates, 8.0)
    return render(rhythm, {NORMAL: shape}, np.array(disturbance), (1, 800), 100.0,
                  np.random.default_rng(seed))


def test_a_window_is_scaled_and_as_disturbed_as_told():
    calm = drawn(False, (0.0, 0.0))
    assert calm.min() == 0 and calm.max() == 1 and calm.dtype == np.float32
    between = (np.arange(800) % 100 < 10) | (np.arange(800) % 100 > 90)
    assert np.ptp(calm[0, between]) < 1e-6
    noisy, slow = drawn(False, (0.02, 0.0)), drawn(False, (0.0, 0.1))
    assert noisy[0, between].std() == pytest.approx(0.02, rel=0.3)
    assert np.abs(np.diff(slow[0, between])).max() < 0.2 and slow[0, between].std() > 0.02


def test_fibrillatory_waves_are_between_the_beats_and_of_4_to_9_hz():
    for seed in range(5):
        waves = drawn(True, (0.0, 0.0), seed)[0] - drawn(False, (0.0, 0.0))[0]
        power = np.abs(np.fft.rfft(waves[20:] - waves[20:].mean())) ** 2
        assert 4 <= np.fft.rfftfreq(780, 0.01)[np.argmax(power)] <= 9


def test_levels_are_those_of_others(hospital):
    data = hospital.train
    levels = learn_levels(data)
    assert levels.size.shape == (len(data), 2) and (levels.size >= 0).all()
    marked = Levels(np.where(levels.patient[:, None] == 2, 1.0, 0.0) * np.ones(2), levels.patient)
    rng = np.random.default_rng(0)
    assert not any(marked.draw(2, rng).any() for _ in range(50))
    assert any(marked.draw(1, rng).any() for _ in range(50))


def test_a_disturbance_is_never_the_patients_own():
    levels = Levels(np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]]), np.array([0, 1, 1]))
    generator = np.random.default_rng(0)
    assert {float(levels.draw(1, generator)[0]) for _ in range(30)} == {0.1}
    assert {float(levels.draw(0, generator)[0]) for _ in range(30)} == {0.2, 0.3}
