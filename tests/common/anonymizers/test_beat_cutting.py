"""Beats are cut where they are, not where an annotation jitters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from common.anonymizers.beat_classifier import NORMAL, VENTRICULAR
from common.anonymizers.beat_cutting import BEFORE, mean_beat, placed, since_r, spline
from common.anonymizers.rhythm import Rhythm


def qrs(t):
    return np.exp(-((t / 0.012) ** 2)) - 0.3 * np.exp(-(((t - 0.03) / 0.012) ** 2))


def test_the_mean_is_as_sharp_as_a_beat(hospital):
    t, rng = np.arange(800) / 100, np.random.default_rng(0)
    time = 0.5 + 0.8 * np.arange(9) + rng.uniform(0, 0.01, 9)
    x = sum(qrs(t - at) for at in time).astype(np.float32)
    data = replace(hospital.train.select(np.zeros(1, np.int64)), x=x[None, None], rate=100.0)
    rhythm = Rhythm(time + rng.uniform(-0.03, 0.03, 9), np.full(9, NORMAL), False, 8.0)
    shape = mean_beat(data, np.zeros(1, np.int64), [rhythm], NORMAL)
    assert shape is not None
    s = since_r(shape.shape[1], 100.0)
    assert s[np.argmax(shape[0])] == pytest.approx(0, abs=0.01)
    assert np.corrcoef(shape[0], qrs(s))[0, 1] > 0.97
    assert mean_beat(data, np.zeros(1, np.int64), [rhythm], VENTRICULAR) is None


def test_a_shape_is_placed_at_its_peak_and_its_t_wave_follows_the_rate():
    t = since_r(82, 100.0)
    shape = (np.exp(-((t / 0.02) ** 2)) + 0.5 * np.exp(-(((t - 0.3) / 0.05) ** 2)))[None]
    late = {}
    for rr in (0.5, 0.8, 1.2):
        signal = np.zeros((1, 400))
        placed(signal, spline(shape), 2.0, rr, 100.0)
        assert np.argmax(signal[0]) == 200
        late[rr] = 220 + int(np.argmax(signal[0, 220:]))
    assert late[0.5] < late[0.8] == 230 < late[1.2]
    edge = np.zeros((1, 400))
    placed(edge, spline(shape), -BEFORE - 1, 0.8, 100.0)
    assert not edge.any()
