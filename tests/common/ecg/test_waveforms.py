"""Beats and rhythms of the synthetic cohort behave as a heart does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common.ecg.rhythms import Beat, Rhythm, draw_timeline
from common.ecg.waveforms import draw_morphology, render

MIXED = {Rhythm.AFIB: 0.25, Rhythm.PVC: 0.12, Rhythm.SVE: 0.09, Rhythm.NODAL: 0.09}


def test_sex_and_age_shift_the_beat_weakly() -> None:
    """Across 600 patients: above chance (0.5), far from certain."""
    rng = np.random.default_rng(0)
    sex, old, x = [], [], []
    for _ in range(600):
        age, letter = int(rng.integers(24, 90)), "MF"[int(rng.integers(2))]
        patient = draw_morphology(rng, age, letter)
        seen = patient.dipoles @ np.array([0.55, 0.85, 0.05])  # MLII
        x.append(np.concatenate([seen, patient.times, np.log(patient.sigmas)]))
        sex.append(letter)
        old.append(age >= 57)
    for target in (sex, old):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        accuracy = np.mean(cross_val_predict(model, np.array(x), target, cv=5) == np.array(target))
        assert 0.60 < accuracy < 0.90


def test_rhythms_follow_physiology() -> None:
    """Fibrillation is irregular; ectopic beats are early; only a PVC is fully compensated."""
    timeline = draw_timeline(np.random.default_rng(1), 3600.0, MIXED)
    rr, kinds = timeline.intervals, timeline.kinds
    assert (np.diff(timeline.times) > 0.25).all() and timeline.times[-1] < 3600
    variation = {
        kind: float(np.std(rr[kinds == kind]) / np.mean(rr[kinds == kind]))
        for kind in (Beat.SINUS, Beat.AFIB)
    }
    assert variation[Beat.AFIB] > 0.2
    places = np.flatnonzero(np.isin(kinds[2:-2], [Beat.PVC, Beat.SVE])) + 2
    places = places[(kinds[places + 1] == Beat.SINUS) & (kinds[places - 2] == Beat.SINUS)]
    assert len(places) > 100
    assert (rr[places] < 0.85 * rr[places - 1]).mean() > 0.97
    pair = (rr[places] + rr[places + 1]) / (2 * np.median(rr[kinds == Beat.SINUS]))
    compensated = {k: float(np.median(pair[kinds[places] == k])) for k in (Beat.PVC, Beat.SVE)}
    assert compensated[Beat.PVC] > compensated[Beat.SVE] + 0.05


def test_records_begin_anywhere_in_a_cycle() -> None:
    """The first rhythm is drawn by its share (sinus 0.45), not by the number of rhythms (0.20)."""
    first = [
        draw_timeline(np.random.default_rng(seed), 180.0, MIXED).episodes[0].rhythm
        for seed in range(300)
    ]
    assert np.mean([rhythm is Rhythm.SINUS for rhythm in first]) == pytest.approx(0.45, abs=0.1)


def test_waves_follow_physiology() -> None:
    """PVCs are wide; fibrillation has no P wave; the limb leads obey Einthoven."""
    rng = np.random.default_rng(2)
    timeline = draw_timeline(rng, 1200.0, MIXED)
    morphology = draw_morphology(rng, 60, "M")
    leads = ("I", "II", "III", "AVR", "AVL", "AVF", "V5")
    x = render(morphology, timeline, 500, leads, rng)
    assert np.allclose(x[0] + x[2], x[1]) and np.allclose(x[3] + x[4] + x[5], 0)
    mean = {}
    for kind in Beat:
        at = np.rint(timeline.times[timeline.kinds == kind] * 500).astype(int)
        at = at[(at > 150) & (at < x.shape[1] - 250)]
        mean[kind] = np.stack([x[1, p - 150 : p + 250] for p in at]).mean(axis=0)
    qrs = slice(150 - 60, 150 + 60)
    energy = {kind: np.abs(beat[qrs] - np.median(beat)) for kind, beat in mean.items()}
    width = {kind: float((e > 0.3 * e.max()).sum()) for kind, e in energy.items()}
    assert width[Beat.PVC] > 2 * width[Beat.SINUS]
    assert width[Beat.SVE] == pytest.approx(width[Beat.SINUS], abs=4)
    atrial = {kind: float(np.ptp(beat[40:115])) for kind, beat in mean.items()}
    assert atrial[Beat.SINUS] > 3 * max(atrial[Beat.AFIB], 0.005)
