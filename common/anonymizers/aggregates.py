"""Aggregates: no waveform is released, only numbers per window.

One of two honest extremes that frame the trade-off: RR statistics, intervals and amplitudes, which
a hospital may think harmless. Heart-rate variability is defined as by the Task Force of ESC and
NASPE (Circulation, 1996), over the few beats of a window.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.contract import Floats, Labelled
from common.ecg.delineation import AMPLITUDES, INTERVALS, Delineation, delineate

NAMES = (
    "beats", "mean RR (ms)", "SDNN (ms)", "RMSSD (ms)", "shortest RR (ms)", "longest RR (ms)",
    "pNN50 (percent)", *(f"{name} (ms)" for name in INTERVALS),
    *(f"{name} amplitude (parts of swing)" for name in AMPLITUDES))


def aggregates(data: Labelled) -> Floats:
    """`NAMES` of each window's first lead, [n, 14]; NaN where there are too few beats or waves.

    Beats are those of the detector, never the annotated ones, which a recipient might not get.
    Intervals and amplitudes are medians over the window's beats. NaN is not filled in: it is
    released, as that a wave could not be found says something of its own.
    """
    return np.array([aggregate(delineate(window, data.rate)) for window in data.x],
                    dtype=np.float32).reshape(-1, len(NAMES))


def aggregate(found: Delineation) -> NDArray[np.float64]:
    """`NAMES` of one window, [14]."""
    rr = 1000 * np.diff(found.time)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the median of nothing is NaN, as it ought
        waves = [np.nanmedian(part, axis=0) if len(found) else np.full(part.shape[1], np.nan)
                 for part in (found.intervals, found.amplitudes)]
    return np.concatenate([[len(found)], _variability(rr), *waves])


def _variability(rr: NDArray[np.float64]) -> list[float]:
    """Mean, SDNN, RMSSD, shortest, longest, pNN50 of RR intervals (ms)."""
    if not len(rr):
        return [np.nan] * 6
    step = np.diff(rr)
    rmssd, pnn50 = ((float(np.sqrt(np.mean(step**2))), 100 * float(np.mean(abs(step) > 50)))
                    if len(step) else (np.nan, np.nan))
    sdnn = float(rr.std(ddof=1)) if len(rr) > 1 else np.nan
    return [float(rr.mean()), sdnn, rmssd, float(rr.min()), float(rr.max()), pnn50]
