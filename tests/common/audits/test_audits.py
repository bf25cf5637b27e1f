import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from common.audits.matching import Matches, match
from common.audits.reidentification import (
    by_gallery_size,
    closed_set,
    cumulative_match,
    identification_rate,
    protocols,
)
from common.audits.utility import diagnosis, gain, prd
from common.ecg.labels import decided
from common.results import clustered_bootstrap, mean_estimate


def test_decided_knows_single_bits_only():
    assert decided(np.array([1, 2, 4, 8, 3, 15], dtype=np.uint8)).tolist() == [0, 1, 2, 3, -1, -1]


def test_diagnosis_agrees_with_sklearn_on_decided_windows():
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 4, 200)
    scores = generator.normal(size=(200, 4)) + 2 * np.eye(4)[classes]
    allowed = (1 << classes).astype(np.uint8)
    allowed[:20] = 15
    result = diagnosis(scores, allowed, np.repeat(np.arange(20), 10))
    macro = np.mean([roc_auc_score(classes[20:] == c, scores[20:, c]) for c in range(4)])
    assert result["macro_auroc"].value == pytest.approx(macro)
    assert result["macro_auroc"].n == 180
    assert result["arrhythmia_accuracy"].value == pytest.approx(
        np.mean(scores[20:].argmax(1) == classes[20:]))


def answers(seed, strength, classes):
    noise = np.random.default_rng(seed).normal(size=(len(classes), 4))
    return noise + strength * np.eye(4)[classes]


def test_a_gain_is_the_difference_of_macro_aurocs_and_is_paired():
    classes, patient = np.arange(400) % 4, np.repeat(np.arange(20), 20)
    allowed = (1 << classes).astype(np.uint8)
    allowed[:20] = 15
    weak, strong = answers(0, 0.5, classes), answers(1, 1.5, classes)
    found = gain([(weak, strong)], allowed, patient)
    apart = [diagnosis(one, allowed, patient)["macro_auroc"] for one in (weak, strong)]
    assert found.value == pytest.approx(apart[1].value - apart[0].value) and found.low > 0
    assert found.n == 380
    # Nearly the same answers: the interval of the difference is far narrower than of either.
    near = gain([(weak, weak + 0.01 * strong)], allowed, patient)
    assert near.high - near.low < (apart[0].high - apart[0].low) / 5
    same = gain([(weak, 3 * weak)], allowed, patient)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_gains_of_several_networks_are_averaged_and_subtracted():
    classes, patient = np.arange(400) % 4, np.repeat(np.arange(20), 20)
    allowed = (1 << classes).astype(np.uint8)
    a, b, c = ((answers(i, 0.5, classes), answers(i + 9, i, classes)) for i in (1, 2, 3))
    each = [gain([one], allowed, patient).value for one in (a, b, c)]
    assert gain([a, b, c], allowed, patient).value == pytest.approx(np.mean(each))
    beyond = gain([c], allowed, patient, beyond=[a, b])
    assert beyond.value == pytest.approx(each[2] - (each[0] + each[1]) / 2)
    none = gain([c], allowed, patient, beyond=[c])
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_prd_of_a_known_change():
    x = np.ones((4, 1, 10), dtype=np.float32)
    assert prd(x, x * 1.1, np.arange(4)).value == pytest.approx(10, rel=1e-4)


def test_interval_is_wider_when_windows_of_a_patient_agree():
    values = np.repeat([0, 1, 0, 1, 1, 0, 1, 0], 50)
    together = mean_estimate(values, np.repeat(np.arange(8), 50))
    apart = mean_estimate(values, np.arange(400))
    assert together.high - together.low > 3 * (apart.high - apart.low)
    assert math.isnan(clustered_bootstrap(lambda w: 0.0, np.array([], dtype=int)).value)


def test_closed_set_ignores_the_unenrolled():
    scores = np.eye(3)[[0, 1, 2, 0]]
    estimate = closed_set(scores, np.array([0, 1, 0, -1]), np.arange(4))
    assert (estimate.value, estimate.n, estimate.chance) == (pytest.approx(2 / 3), 3, 1 / 3)


def test_identification_by_cosine():
    gallery = np.array([[1, 0], [0, 1]], dtype=np.float32)
    probe = np.array([[5, 1], [1, 9], [1, 2]], dtype=np.float32)
    found = match(gallery, np.array([0, 1]), probe, np.array([0, 1, 0]))
    assert identification_rate(found).value == pytest.approx(2 / 3)
    assert identification_rate(found, 2).value == 1
    assert cumulative_match(found) == pytest.approx([2 / 3, 1])


@given(st.integers(2, 30), st.integers(0, 99))
def test_smaller_galleries_are_what_drawing_them_would_give(patients, seed):
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, patients, 3)
    found = Matches(rank, np.zeros(3), np.zeros((3, 0)), np.arange(3), patients, np.arange(3))
    sizes = by_gallery_size(found)
    assert sizes[patients].value == pytest.approx(np.mean(rank == 0))
    assert sizes[2].value == pytest.approx(np.mean(1 - rank / (patients - 1)))
    if patients > 5:  # all 4 of the others are drawn from those that are not nearer
        expected = [math.comb(patients - 1 - r, 4) / math.comb(patients - 1, 4) for r in rank]
        assert sizes[5].value == pytest.approx(np.mean(expected))


def test_days_between_enrolment_and_probe():
    record = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    patient = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    day = np.array([10, 10, 10, 40, 41, -1, 3, 9])
    found = protocols(patient, record, np.zeros(8), np.array([0, 1, 5]), np.arange(2, 8), day)
    rows = {name: probes.tolist() for name, (_, probes) in found.items()}
    assert rows == {"same day": [2], "1-30 days": [3], "over 30 days": [4],
                    "different records": [6, 7]}


def test_gallery_and_probe_never_share_a_moment():
    start = np.tile(np.arange(0, 1600, 8.0), 2)
    patient, record = np.repeat([0, 1], 200), np.repeat([0, 1], 200)
    gallery = np.r_[np.arange(140), 200 + np.arange(140)]
    probe = np.r_[np.arange(170, 200), 200 + np.arange(170, 200)]
    found = protocols(patient, record, start, gallery, probe)
    assert set(found) == {"same session"}
    enrolled, probed = found["same session"]
    assert start[probed].min() - (start[enrolled].max() + 8) >= 240
    record[370:] = 2  # the second patient's probes come from a record of their own
    found = protocols(patient, record, start, gallery, probe)
    assert set(patient[found["different records"][1]]) == {1}
    assert set(patient[found["same session"][1]]) == {0}
    assert len(found["different records"][0]) == len(gallery)
