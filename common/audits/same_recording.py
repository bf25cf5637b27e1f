"""From which recording is it? What a waveform anonymizer does not hide, since it keeps the beats.

Whoever has seen when a heart beat, by a Holter, a watch or a pulse oximeter, recognises the very
moment in a released window by its RR intervals; whoever has the original, by its shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.audits.matching import match
from common.ecg.delineation import r_peaks
from common.results import Estimate, mean_estimate

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_RATE = 50.0  # Hz, of a beat train
_WIDTH = 0.02  # s, of the bump at each beat: detectors differ by less


def beat_trains(windows: Floats, rate: float) -> Floats:
    """When the hearts beat, as bumps at the R peaks, [n, samples at 50 Hz], of mean 0.

    The cosine of two of them is the share of beats at the same time; amplitudes play no part.
    A window without beats is all 0, so near to none.

    Args:
        windows: [n, leads, L]; the first lead is looked at.
        rate: Hz.

    Source: the spike-train distance of van Rossum (2001).
    """
    time = np.arange(round(windows.shape[2] / rate * _RATE)) / _RATE
    out = np.zeros((len(windows), len(time)), dtype=np.float32)
    for row, window in zip(out, windows, strict=True):
        peaks = r_peaks(window[0], rate)
        if len(peaks):
            row += np.exp(-((time[:, None] - peaks) ** 2) / (2 * _WIDTH**2)).sum(1)
            row -= row.mean()
    return out


def waveforms(windows: Floats) -> Floats:
    """First leads [n, L] of mean 0."""
    lead = windows[:, 0]
    return np.asarray(lead - lead.mean(1, keepdims=True), dtype=np.float32)


def same_recording(known: Floats, released: Floats, patient: Ints) -> Estimate:
    """Share of windows whose own original is the nearest of all n; chance is 1 / n.

    Args:
        known: what the attacker has of the n windows, [n, d].
        released: the same, computed from their releases, [n, d].
        patient: [n].
    """
    own = np.arange(len(known))
    found = match(known, own, released, own, others=0)
    return mean_estimate(found.rank == 0, patient, chance=1 / max(1, len(known)))
