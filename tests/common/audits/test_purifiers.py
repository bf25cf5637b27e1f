"""Each filter on a signal whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import pywt
from hypothesis import given, settings
from hypothesis import strategies as st

from common.audits.purifiers import FILTERS, low_pass, median, savitzky_golay, wavelet
from common.errors import InputError

RATE = 250.0
TIME = np.arange(2000) / RATE  # 8 s


def tone(hertz: float, phase: float = 0.3) -> np.ndarray:
    wave = 0.5 + 0.2 * np.sin(2 * np.pi * hertz * TIME + phase)
    return wave[None, None].astype(np.float32)


def power(windows: np.ndarray) -> float:
    return float(np.sqrt(np.mean(windows.astype(float) ** 2)))


def test_the_low_pass_takes_60_hz_and_leaves_5_hz_up_to_the_ends():
    both = tone(5) + tone(60) - 0.5
    inside = slice(25, -25)  # 0.1 s: no filter knows how a tone went on beyond its end
    assert np.abs(low_pass(both, RATE) - tone(5))[:, :, inside].max() < 0.01
    assert np.abs(low_pass(tone(5), RATE) - tone(5)).max() < 1e-3
    assert power(low_pass(tone(40), RATE) - 0.5) == pytest.approx(power(tone(40) - 0.5) / 2, rel=.1)


def test_a_low_pass_above_half_the_rate_is_refused_with_the_numbers():
    with pytest.raises(InputError, match="low-pass is 40 Hz; allowed is below half the sampling "
                                         "rate, 40 Hz"):
        low_pass(tone(5), 80)


def test_the_wavelet_takes_white_noise_and_leaves_a_smooth_signal():
    noise = 0.05 * np.random.default_rng(0).standard_normal((4, 1, 2000)).astype(np.float32)
    left = wavelet(tone(0.3) + noise, RATE) - tone(0.3)
    assert power(left) < 0.3 * power(noise)
    assert np.abs(wavelet(tone(2), RATE) - tone(2)).max() < 0.01


def test_the_wavelets_threshold_is_the_universal_one():
    noise = np.random.default_rng(1).standard_normal((100, 1, 2000)).astype(np.float32)
    gone = wavelet(noise, RATE)
    finest = pywt.wavedec(gone, "db4", axis=2)[-1][:, :, 10:-10]
    # sqrt(2 log 2000) is 3.9 standard deviations, which one in 10,000 details exceeds.
    assert 2e-5 < np.mean(np.abs(finest) > 1e-3) < 4e-4
    assert power(gone) < 0.1  # the coarsest approximation: 14 of 2000 coefficients
    noise[:, :, 1000] += 12  # far above 3.9 sigma: it stays, lessened by as much
    assert 2 < (wavelet(noise, RATE) - gone)[:, 0, 1000].mean() < 8


def test_the_median_takes_spikes_and_leaves_a_step():
    step = np.where(TIME < 4, 0.2, 0.8)[None, None].astype(np.float32)
    spiky = step.copy()
    spiky[0, 0, [0, 50, 51, 700, 1500, 1999]] = 1.0
    np.testing.assert_array_equal(median(spiky, RATE), step)
    fall = np.linspace(1, 0.5, 2000, dtype=np.float32)[None, None]
    assert np.abs(median(fall, RATE) - fall).max() < 1.1 * 0.5 / 1999  # at the ends a sample's step


def test_savitzky_golay_leaves_cubics_and_lessens_noise():
    x = (TIME - 4) / 4
    cubic = (0.3 * x**3 - 0.2 * x**2 + 0.5)[None, None].astype(np.float32)
    assert np.abs(savitzky_golay(cubic, RATE) - cubic).max() < 1e-5
    noise = np.random.default_rng(0).standard_normal((1, 1, 2000)).astype(np.float32)
    assert power(savitzky_golay(noise, RATE)) < 0.5 * power(noise)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(FILTERS)), st.integers(1, 3), st.integers(1, 3),
       st.integers(60, 301), st.sampled_from([100.0, 125.0, 250.0, 360.0]), st.floats(0, 1))
def test_shapes_stay_and_a_constant_stays_constant(name, n, leads, length, rate, level):
    windows = np.full((n, leads, length), level, dtype=np.float32)
    out = FILTERS[name](windows, rate)
    assert out.dtype == np.float32 and out.shape == windows.shape
    np.testing.assert_allclose(out, windows, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(FILTERS)), st.integers(0, 2**31))
def test_windows_and_leads_are_filtered_one_by_one(name, seed):
    windows = np.random.default_rng(seed).random((3, 2, 128)).astype(np.float32)
    apart = FILTERS[name](np.ascontiguousarray(windows[1:2, 1:]), RATE)
    np.testing.assert_allclose(FILTERS[name](windows, RATE)[1:2, 1:], apart, atol=1e-5)


@pytest.mark.parametrize("name", FILTERS)
def test_no_wave_moves(name):
    bump = np.exp(-0.5 * ((TIME - 4) / 0.03) ** 2)[None, None].astype(np.float32)
    assert abs(int(FILTERS[name](bump, RATE).argmax()) - 1000) <= 1
