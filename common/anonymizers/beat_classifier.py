"""Classes of beats that nobody annotated: a beat classifier of ours, and a simple rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from common.anonymizers.contract import Labelled
from common.ecg.labels import BEAT_CLASSES

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL, SUPRAVENTRICULAR, VENTRICULAR = (list(BEAT_CLASSES).index(name) for name in "NSV")
_IRREGULAR = 0.12  # RMSSD over mean RR: above it, without ectopy, a rhythm is taken for AFIB
_QRS = 0.10  # s on either side of R
_WINDOWS = 60  # of a patient that the classifier learns from: more of the same adds little


def premature(time: Array) -> Ints:
    """NORMAL for each beat, SUPRAVENTRICULAR where it comes early and its rhythm is regular."""
    kind = np.full(len(time), NORMAL, dtype=np.int64)
    if len(time) < 4:
        return kind
    rr = np.diff(time)
    usual = np.median(rr)
    if np.median(np.abs(rr - usual)) < 0.06 * usual:
        kind[1:][rr < 0.85 * usual] = SUPRAVENTRICULAR
    return kind


def irregular(time: Array, kind: Ints) -> bool:
    """Whether RR intervals alternate as in fibrillation; ectopy explains irregularity."""
    rr = np.diff(time)
    if len(rr) < 4 or (kind != NORMAL).any():
        return False
    return float(np.sqrt(np.mean(np.diff(rr) ** 2)) / np.mean(rr)) > _IRREGULAR


def features(lead: NDArray[np.float32], time: Array, rate: float) -> Array:
    """What tells a beat's class, [beats, 7].

    The RR before and after and that of the beat before, over the window's median RR; of its QRS
    complex, the correlation with the window's median beat, the width at half height (s), and the
    height and steepness over the median's.
    """
    rr = np.diff(time)
    usual = float(np.median(rr)) if len(rr) else 1.0
    ratio = np.concatenate([[1.0, 1.0], rr / usual, [1.0]])
    half = max(2, round(_QRS * rate))
    x = np.pad(np.asarray(lead, dtype=np.float64), half, "edge")
    at = np.clip(np.rint(time * rate).astype(int), 0, len(lead) - 1)
    qrs = x[at[:, None] + np.arange(2 * half + 1)]  # (beats, samples)
    qrs = qrs - np.median(qrs, axis=1, keepdims=True)
    median = np.median(qrs, axis=0)
    norms = np.linalg.norm(qrs, axis=1) * np.linalg.norm(median) + 1e-9
    height, slope = np.ptp(qrs, axis=1), np.abs(np.diff(qrs, axis=1)).max(axis=1)
    width = (np.abs(qrs) > 0.5 * np.abs(qrs).max(axis=1, keepdims=True)).sum(axis=1) / rate
    return np.stack([ratio[1:-1], ratio[2:], ratio[:-2], qrs @ median / norms, width,
                     height / (np.median(height) + 1e-9), slope / (np.median(slope) + 1e-9)], 1)


class BeatClassifier:
    """Normal, supraventricular or ventricular, from RR and the QRS complex beside the window's.

    Args:
        data: windows whose annotated beats are learned from, `_WINDOWS` a patient; without two
            classes among them, `premature` is all there is.
        seed: of the choice of windows and of the trees.

    Source: RR and morphology features of de Chazal et al. (2004); gradient boosted trees of
    scikit-learn.
    """

    def __init__(self, data: Labelled, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        annotated = np.flatnonzero(np.diff(data.beats.first) > 2)
        rows = [i for patient in np.unique(data.patient[annotated]) for i in generator.permutation(
            annotated[data.patient[annotated] == patient])[:_WINDOWS].tolist()]
        beats = [data.beats.of(i) for i in rows]
        kinds = np.concatenate([np.zeros(0, np.int64), *(kind for _, kind in beats)])
        kinds = np.where(np.isin(kinds, (SUPRAVENTRICULAR, VENTRICULAR)), kinds, NORMAL)
        self.trees: HistGradientBoostingClassifier | None = None
        if len(np.unique(kinds)) > 1:
            known = np.concatenate([features(data.x[i, 0], time, data.rate)
                                    for i, (time, _) in zip(rows, beats, strict=True)])
            self.trees = HistGradientBoostingClassifier(max_iter=50, early_stopping=False,
                                                        random_state=seed).fit(known, kinds)

    def classify(self, lead: NDArray[np.float32], time: Array, rate: float) -> Ints:
        """Kind of each beat of one window.

        Args:
            lead: [L].
            time: R peaks, s.
            rate: Hz.
        """
        if self.trees is None or len(time) < 3:
            return premature(time)
        return np.asarray(self.trees.predict(features(lead, time, rate)), dtype=np.int64)
