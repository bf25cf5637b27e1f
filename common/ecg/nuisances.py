"""What disturbs a recording and says nothing about the patient.

Every level follows knots that are drawn some 12 s apart, from one distribution for all patients
and records. A classifier that reads an offset, a gain or a noise level hence learns nothing that
still holds a minute later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]

_KNOT_SECONDS = 12.0
_COARSE_HZ = 5.0  # wander has nothing above 1 Hz: it is drawn coarsely, then interpolated


def add_nuisances(
    signal: Floats, sampling_rate: float, mains_hz: float, rng: np.random.Generator,
    times: float = 1.0,
) -> Floats:
    """Gain changes, offset, baseline wander, muscle noise and mains hum on top of a signal.

    Args:
        signal: [leads, samples] clean, mV.
        sampling_rate: Hz.
        mains_hz: 50 or 60.
        rng: source of randomness; must not depend on the patient's morphology.
        times: how much larger wander, muscle noise and hum are than usual.

    Returns:
        [leads, samples], mV.
    """
    leads, samples = signal.shape
    seconds = samples / sampling_rate
    clock = np.arange(samples) / sampling_rate
    hum = np.sin(2 * np.pi * (mains_hz * clock + rng.random()))
    coarse = np.arange(0.0, seconds + 2 / _COARSE_HZ, 1 / _COARSE_HZ)
    noisy = np.empty_like(signal)
    for lead in range(leads):
        gain = np.exp(0.20 * _levels(rng, coarse))
        offset = 0.25 * _levels(rng, coarse)
        wander = times * 0.07 * np.exp(0.5 * _levels(rng, coarse)) * _wander(rng, len(coarse))
        muscle = times * 0.012 * np.exp(0.5 * _levels(rng, coarse))
        mains = times * 0.008 * np.exp(0.6 * _levels(rng, coarse))
        noise = rng.standard_normal(samples, dtype=np.float32)
        noisy[lead] = signal[lead] * np.interp(clock, coarse, gain)
        noisy[lead] += np.interp(clock, coarse, offset + wander)
        noisy[lead] += np.interp(clock, coarse, muscle) * noise
        noisy[lead] += np.interp(clock, coarse, mains) * hum
    return noisy


def _levels(rng: np.random.Generator, clock: Floats) -> Floats:
    """A standard normal level that moves linearly between independent knots, [len(clock)]."""
    knots = np.arange(-_KNOT_SECONDS * rng.random(), clock[-1] + _KNOT_SECONDS, _KNOT_SECONDS)
    return np.interp(clock, knots, rng.standard_normal(len(knots)))


def _wander(rng: np.random.Generator, count: int) -> Floats:
    """Low-pass noise of unit size on the coarse clock, [count]."""
    noise = lfilter([1.0], [1.0, -0.85], rng.standard_normal(count + 40))[40:]
    smooth = np.convolve(noise, np.hanning(7) / np.hanning(7).sum(), mode="same")
    return np.asarray(smooth * 0.6, dtype=np.float64)
