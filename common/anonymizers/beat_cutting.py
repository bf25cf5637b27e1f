"""Cutting beats out of windows, aligning and averaging them, and setting shapes into windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates, spline_filter1d

from common.anonymizers.beat_classifier import NORMAL
from common.anonymizers.contract import Labelled
from common.anonymizers.rhythm import Rhythm

Array = NDArray[np.float64]
Cut = tuple[Array, float, float]  # spline of a window's leads, R peak (s), RR that follows (s)

BEFORE, AFTER = 0.30, 0.52  # s around the R peak that make a shape
P_ENDS = 0.07  # s before R: without a P wave nothing earlier is left
QRS_ENDS = 0.10  # s after R: what follows scales with the root of RR
_USUAL_RR = 0.8  # s at which shapes are kept
_FADE = 0.08  # s at either end
_FEW = 3  # beats below which a patient's mean is too noisy to count
_MANY = 120  # beats of a patient that a mean is made of: more change it no further
_NEAR = 0.04  # s that an annotation may lie beside the R peak


def since_r(samples: int, rate: float) -> Array:
    """Time of each sample of a shape, s from its R peak."""
    return np.arange(samples) / rate - BEFORE


def _times(rate: float) -> Array:
    return since_r(round((BEFORE + AFTER) * rate), rate)


def _stretched(rr: float, rate: float) -> Array:
    """Where in a beat that has this RR the samples of a usual one lie, s from R."""
    t = _times(rate)
    stretch = float(np.clip(np.sqrt(rr / _USUAL_RR), 0.7, 1.25))
    return np.where(t > QRS_ENDS, QRS_ENDS + (t - QRS_ENDS) * stretch, t)


def _fades(rate: float) -> Array:
    t = _times(rate)
    edge = np.minimum(t + BEFORE, AFTER - t) / _FADE
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.clip(edge, 0.0, 1.0)))


def spline(leads: Array) -> Array:
    """Coefficients of the cubic spline through each lead, [leads, samples]."""
    return np.asarray(spline_filter1d(leads, 3, axis=1, mode="nearest"))


def _at(coefficients: Array, places: Array) -> Array:
    """Values of each lead [leads, L] at places [...] in samples: [leads, ...]."""
    return np.stack([map_coordinates(lead, places[None], order=3, mode="nearest", prefilter=False)
                     for lead in coefficients])


def mean_beat(data: Labelled, windows: NDArray[np.int64], rhythms: Sequence[Rhythm],
              kind: int) -> Array | None:
    """The mean beat of a class over some windows, [leads, samples], or None: too few.

    Each is set on its R peak, read at the RR of `_USUAL_RR`, measured by the height of the
    window's normal beats (a ventricular beat keeps its size beside them), and faded to 0 at both
    ends. R is the largest deflection of the mean; each beat is shifted to where it is most like
    the mean, as one sample of jitter makes QRS complexes wide.
    """
    cuts = _cuts(data, windows, rhythms, kind)
    if len(cuts) < _FEW:
        return None
    t, rate = _times(data.rate), data.rate
    raw = np.mean([_at(leads, (t + at) * rate) for leads, at, _ in cuts], axis=0)
    qrs = np.flatnonzero(np.abs(t) <= 0.06)
    offset = t[qrs[np.argmax(np.abs(raw[0, qrs] - np.median(raw[0])))]]
    shifts = np.arange(-_NEAR, _NEAR + 1e-9, 0.25 / rate)  # s
    narrow = np.arange(-0.08, 0.08, 1 / rate)
    model = np.interp(narrow + offset, t, raw[0])
    model = model - model.mean()
    found = []
    for leads, at, rr in cuts:
        places = (narrow + shifts[:, None] + offset + at) * rate  # (shifts, samples)
        each = _at(leads[:1], places)[0]
        each -= each.mean(axis=1, keepdims=True)
        fit = each @ model / (np.linalg.norm(each, axis=1) + 1e-9)
        peak = at + offset + shifts[int(np.argmax(fit))]
        found.append(_at(leads, (_stretched(rr, rate) + peak) * rate))
    return np.asarray(np.median(found, axis=0) * _fades(rate))


def _cuts(data: Labelled, windows: NDArray[np.int64], rhythms: Sequence[Rhythm],
          kind: int) -> list[Cut]:
    """Beats of a class that lie whole in their window, evenly from all windows."""
    holding = [i for i in windows.tolist() if np.any(rhythms[i].kind == kind)]
    chosen = np.unique(np.linspace(0, len(holding) - 1, min(len(holding), _MANY)).astype(int))
    each = max(1, round(_MANY / max(1, len(chosen))))
    found: list[Cut] = []
    for i in (holding[k] for k in chosen.tolist()):
        rhythm = rhythms[i]
        following = np.append(np.diff(rhythm.time), rhythm.mean_rr)
        whole = (rhythm.time > BEFORE + _NEAR) & (rhythm.time < rhythm.seconds - AFTER * 1.25)
        these = np.flatnonzero((rhythm.kind == kind) & whole)[:each]
        if len(these):
            x = np.asarray(data.x[i], dtype=np.float64)
            x = x - np.median(x, axis=1, keepdims=True)
            leads = spline(x / _height(x, rhythm, data.rate))
            found += [(leads, float(rhythm.time[k]), float(following[k])) for k in these]
    return found


def _height(x: Array, rhythm: Rhythm, rate: float) -> Array:
    """Median peak-to-peak of the QRS of normal beats, else of all beats, [leads, 1]."""
    chosen = rhythm.time[rhythm.kind == NORMAL]
    chosen = chosen if len(chosen) else rhythm.time
    near = max(1, round(QRS_ENDS * rate))
    spans = [x[:, max(0, at - near) : at + near + 1] for at in
             np.rint(chosen * rate).astype(int).tolist()]
    heights = [np.ptp(span, axis=1) for span in spans if span.shape[1]]
    return np.median(heights, axis=0)[:, None] + 1e-6 if heights else np.ones((len(x), 1))


def placed(signal: Array, shape: Array, time: float, rr: float, rate: float) -> None:
    """Add a shape, as its `spline`, to a signal [leads, L] at an R peak (s) that an RR follows."""
    grid = _stretched(rr, rate)
    first = max(0, int(np.ceil((time + grid[0]) * rate)))
    last = min(signal.shape[1], int((time + grid[-1]) * rate) + 1)
    if last <= first:
        return
    at = np.arange(first, last) / rate - time
    places = np.interp(at, grid, np.arange(len(grid)))
    signal[:, first:last] += _at(shape, places)
