"""Beats that nobody annotated: found, and told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from common.anonymizers.beat_classifier import (
    NORMAL,
    SUPRAVENTRICULAR,
    VENTRICULAR,
    BeatClassifier,
    features,
    irregular,
    premature,
)
from common.ecg.beats import no_beats
from common.ecg.delineation import r_peaks


def test_the_detector_against_annotations(hospital):
    data = hospital.test
    hits, annotated, found = 0, 0, 0
    for i in range(0, len(data), 4):
        truth = data.beats.of(i)[0]
        peaks = r_peaks(data.x[i, 0], data.rate)
        hits += sum(np.abs(peaks - t).min() < 0.08 for t in truth if len(peaks))
        annotated, found = annotated + len(truth), found + len(peaks)
    assert hits / annotated > 0.95 and hits / found > 0.95


def test_the_detector_takes_what_is_no_heart():
    assert len(r_peaks(np.zeros(800, dtype=np.float32), 100.0)) == 0
    noise = np.random.default_rng(0).random(800, dtype=np.float32)
    assert (np.diff(r_peaks(noise, 100.0)) > 0).all()


def test_the_classifier_finds_ectopic_beats_of_windows_it_has_not_seen(hospital):
    data = hospital.test
    classifier = BeatClassifier(hospital.train)
    table = np.zeros((3, 3), dtype=int)
    for i in range(len(data)):
        time, kind = data.beats.of(i)
        np.add.at(table, (kind, classifier.classify(data.x[i, 0], time, data.rate)), 1)
    assert table.trace() / table.sum() > 0.95
    assert table[VENTRICULAR, VENTRICULAR] > 0.8 * table[VENTRICULAR].sum() > 0


def test_features_of_a_wide_early_beat():
    t = np.arange(800) / 100
    time = np.array([0.5, 1.3, 2.1, 2.6, 3.7, 4.5, 5.3])
    lead = sum(np.exp(-((t - at) / (0.05 if at == 2.6 else 0.015)) ** 2) for at in time)
    found = features(lead.astype(np.float32), time, 100.0)
    assert found.shape == (7, 7) and np.isfinite(found).all()
    assert found[3, 0] == pytest.approx(0.5 / 0.8) and found[3, 1] == pytest.approx(1.1 / 0.8)
    assert found[3, 4] > 2 * found[1, 4] and found[3, 3] < found[1, 3]


def test_without_annotated_classes_a_simple_rule(hospital):
    nothing = replace(hospital.train, beats=no_beats(len(hospital.train)))
    classifier = BeatClassifier(nothing)
    early = np.cumsum(np.full(9, 0.8))
    early[4] -= 0.25
    kinds = classifier.classify(hospital.test.x[0, 0], early, 100.0)
    assert kinds.tolist() == [NORMAL] * 4 + [SUPRAVENTRICULAR] + [NORMAL] * 4


def test_rules_of_rhythm():
    regular = np.cumsum(np.full(9, 0.8))
    assert premature(regular).tolist() == [NORMAL] * 9
    wild = np.cumsum([0.6, 0.9, 0.5, 1.1, 0.7, 1.0, 0.55])
    assert irregular(wild, np.zeros(7, dtype=int)) and not irregular(regular, np.zeros(9, int))
    assert not irregular(wild, np.full(7, VENTRICULAR))
