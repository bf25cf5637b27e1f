"""Beats alone find the moment again; a signal without beats finds nothing."""

import numpy as np
import pytest

from common.audits.same_recording import beat_trains, same_recording, waveforms

RATE, N = 125.0, 12


def drawn(times, shape, rate=RATE):
    """Windows of 8 s with a narrow deflection at each time."""
    t = np.arange(round(8 * rate)) / rate
    return np.stack([np.sum([shape * np.exp(-((t - at) / 0.015) ** 2) for at in row], axis=0)
                     for row in times])[:, None].astype(np.float32)


@pytest.fixture(scope="module")
def times():
    rng = np.random.default_rng(0)
    return [np.cumsum(rng.uniform(0.6, 1.1, 9)) for _ in range(N)]


def test_rhythm_survives_another_shape_and_amplitude(times):
    known, released = beat_trains(drawn(times, 1.0), RATE), beat_trains(drawn(times, -0.3), RATE)
    assert same_recording(known, released, np.arange(N)).value == 1


def test_another_rhythm_is_not_found(times):
    known, other = beat_trains(drawn(times, 1.0), RATE), beat_trains(
        drawn([row[0] + np.arange(9) * 0.8 for row in times], 1.0), RATE)
    assert same_recording(known, other, np.arange(N)).value < 0.5


def test_a_constant_signal_gives_chance():
    nothing = np.full((600, 1, 1000), 0.5, dtype=np.float32)
    for vectors in (waveforms(nothing), beat_trains(nothing[:20], RATE)):
        found = same_recording(vectors, vectors, np.arange(len(vectors)))
        assert found.value <= 4 / len(vectors)
        assert found.chance == pytest.approx(1 / len(vectors))


def test_a_waveform_finds_itself_under_noise(times):
    windows = drawn(times, 1.0)
    noise = np.random.default_rng(1).normal(0, 0.1, windows.shape)
    assert same_recording(waveforms(windows), waveforms(windows + noise), np.arange(N)).value == 1
