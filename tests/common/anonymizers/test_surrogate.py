"""The surrogate: rhythm and class stay, nothing of the patient's own shapes does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from common.anonymizers.beat_classifier import NORMAL, SUPRAVENTRICULAR, VENTRICULAR
from common.anonymizers.beat_shapes import without_p
from common.anonymizers.contract import Effort
from common.anonymizers.rhythm import Rhythm, another_rate, rhythm_of
from common.anonymizers.surrogate import Surrogate
from common.ecg.beats import no_beats
from common.ecg.labels import decided
from common.errors import InputError
from common.protocol import ARRHYTHMIA_CLASSES


def fitted(hospital, tries=1, **settings):
    surrogate = Surrogate(tries=tries, **settings)
    surrogate.fit(hospital.train, hospital.frozen, Effort(1))
    return surrogate


@pytest.fixture(scope="module")
def kept(hospital):
    return fitted(hospital, rate="keep")


def test_it_is_a_window_of_the_same_shape_drawn_anew(hospital, kept):
    released = kept.anonymize(hospital.test, seed=1)
    assert released.shape == hospital.test.x.shape and released.dtype == np.float32
    assert np.isfinite(released).all()
    assert (released.min(axis=2) == 0).all() and (released.max(axis=2) == 1).all()
    assert np.array_equal(released, kept.anonymize(hospital.test, seed=1))
    assert not np.array_equal(released, kept.anonymize(hospital.test, seed=2))


def test_beats_stay_where_they_are_when_the_rate_is_kept(hospital, kept):
    released = kept.anonymize(hospital.test, seed=1)
    found = []
    for i in range(len(hospital.test)):
        times, kinds = hospital.test.beats.of(i)
        times = times[(kinds == NORMAL) & (times > 0.3) & (times < 7.7)]
        slope = np.abs(np.gradient(released[i, 0]))
        steep = np.sort(slope)[-len(slope) // 10]
        found += [slope[int(100 * t) - 5 : int(100 * t) + 6].max() >= steep for t in times]
    assert np.mean(found) > 0.95


def test_nothing_of_the_patients_own_record_is_in_the_release(hospital, kept):
    """Whatever the waveform is, the same beats of the same patient give the same release."""
    data = hospital.test
    scrambled = replace(data, x=np.random.default_rng(0).random(data.x.shape, dtype=np.float32))
    assert np.array_equal(kept.anonymize(data, seed=3), kept.anonymize(scrambled, seed=3))
    shapes = kept.bank.shapes[NORMAL]
    for i, owner in enumerate(kept.bank.owners[NORMAL]):
        marked = np.zeros_like(shapes)
        marked[i] = 1.0  # only this patient's shape is not zero
        bank = replace(kept.bank, shapes={**kept.bank.shapes, NORMAL: marked})
        rng = np.random.default_rng(0)
        draws = [bank.draw(NORMAL, int(owner), 4, rng) for _ in range(20)]
        assert not np.any(draws)
        assert np.any([bank.draw(NORMAL, -1, len(shapes), rng) for _ in range(20)])


def test_a_class_that_only_the_patient_has_is_drawn_as_normal(kept):
    bank = kept.bank
    owner = int(bank.owners[VENTRICULAR][0])
    alone = replace(bank, shapes={**bank.shapes, VENTRICULAR: bank.shapes[VENTRICULAR][:1]},
                    owners={**bank.owners, VENTRICULAR: np.array([owner])})
    drawn = alone.draw(VENTRICULAR, owner, 4, np.random.default_rng(0))
    assert np.array_equal(drawn, alone.draw(NORMAL, owner, 4, np.random.default_rng(0)))


def test_without_p_waves_where_the_atria_fibrillate(kept):
    sinus = kept.bank.draw(NORMAL, -1, 4, np.random.default_rng(0))
    fibrillating = without_p(sinus, 100.0)
    before = slice(0, int((0.30 - 0.10) * 100))
    assert np.ptp(sinus[:, before]) > 0 == np.ptp(fibrillating[:, before])
    assert np.array_equal(sinus[:, 30:], fibrillating[:, 30:])


def test_the_patient_is_hidden_and_the_diagnosis_is_not(hospital):
    released = fitted(hospital).anonymize(hospital.test, seed=1)
    x = hospital.test.x
    assert hospital.accuracy("identity", x) > 0.7 and hospital.auroc(x) > 0.9
    assert hospital.accuracy("identity", released) < 0.45  # of six patients, drawn from five
    assert hospital.auroc(released) > 0.65
    kept = fitted(hospital, rate="keep").anonymize(hospital.test, seed=1)
    assert hospital.auroc(kept) > 0.65


def test_another_rate_keeps_the_pattern_and_the_ectopic_beat():
    time = np.array([0.2, 1.0, 1.5, 2.6, 3.4, 4.2, 5.0, 5.8, 6.6, 7.4])
    kind = np.where(np.arange(10) == 2, VENTRICULAR, NORMAL)
    rhythm = Rhythm(time, kind, False, 8.0)
    for seed in range(20):
        for mean in (0.5, 0.8, 1.2):
            made = another_rate(rhythm, mean, np.random.default_rng(seed))
            assert VENTRICULAR in made.kind and (np.diff(made.time) > 0).all()
            assert made.time[0] >= 0 and made.time[-1] < 8
            assert made.mean_rr == pytest.approx(mean, rel=0.15)
    alone = Rhythm(np.array([1.0]), np.array([NORMAL]), False, 8.0)
    assert another_rate(alone, 0.5, np.random.default_rng(0)) is alone


def test_an_unannotated_window_is_read_by_detector_and_classifier(hospital, kept):
    data = hospital.test
    bare = replace(data, beats=no_beats(len(data)))
    for i in range(0, len(data), 9):
        read, annotated = (rhythm_of(one, i, kept.classifier) for one in (bare, data))
        assert len(read.time) == pytest.approx(len(annotated.time), abs=3)
    assert np.isfinite(kept.anonymize(bare.select(np.arange(5)), seed=1)).all()


def test_the_arrhythmia_of_a_rhythm_is_the_annotated_one(hospital, kept):
    data = hospital.test
    read = [rhythm_of(data, i, kept.classifier).arrhythmia for i in range(len(data))]
    classes = decided(data.allowed.astype(np.uint8))
    known = classes >= 0
    assert len(np.unique(classes[known])) > 1
    assert np.array_equal(np.array(read)[known], classes[known])
    both = Rhythm(np.arange(3.0), np.array([NORMAL, SUPRAVENTRICULAR, VENTRICULAR]), False, 8.0)
    assert ARRHYTHMIA_CLASSES[both.arrhythmia] == "PVC"


def test_a_premature_shape_changes_what_lies_before_the_qrs_complex(kept):
    normal = kept.bank.draw(NORMAL, -1, 4, np.random.default_rng(0))
    owner = int(kept.bank.owners[SUPRAVENTRICULAR][0])
    alone = replace(kept.bank, owners={**kept.bank.owners, SUPRAVENTRICULAR: np.array([owner])},
                    shapes={**kept.bank.shapes,
                            SUPRAVENTRICULAR: kept.bank.shapes[SUPRAVENTRICULAR][:1]})
    drawn = [alone.draw_premature(normal, patient, 4, np.random.default_rng(0))
             for patient in (owner, -1)]
    assert np.array_equal(drawn[0], without_p(normal, 100.0))  # nobody else's to draw from
    assert not np.array_equal(drawn[1], drawn[0])
    early = slice(0, round(0.05 * 100))  # where the T wave of the beat before would be
    assert not drawn[1][:, early].any()


class Watching:
    """A panel that remembers what it read, and is content with every third drawing."""

    def __init__(self):
        self.seen = []

    def clarity(self, windows, arrhythmia):
        self.seen.append(windows.copy())
        return np.where(np.arange(len(windows)) % 3 == 0, 1.0, 0.5)


def test_the_panel_only_chooses_among_drawings(hospital):
    surrogate = fitted(hospital)
    surrogate.tries, surrogate.panel = 3, Watching()
    data = hospital.test.select(np.arange(9))
    released = surrogate.anonymize(data, seed=1)
    assert [len(seen) for seen in surrogate.panel.seen] == [9, 6, 4]
    drawings = np.concatenate(surrogate.panel.seen)
    assert all(any(np.array_equal(one, drawing) for drawing in drawings) for one in released)


def test_bad_settings(hospital):
    with pytest.raises(InputError, match="rate is 'faster'; allowed: keep, randomise"):
        Surrogate(rate="faster")
    with pytest.raises(InputError, match="spread is 1.5; allowed is 0 to 1"):
        Surrogate(spread=1.5)
    alone = hospital.train.select(np.flatnonzero(hospital.train.patient == 0))
    with pytest.raises(InputError, match="patients with normal beats are 1; allowed are 2 or more"):
        Surrogate().fit(alone, hospital.frozen, Effort(1))
