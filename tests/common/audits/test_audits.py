import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from common.audits.reidentification import closed_set, identification_rate, protocols
from common.audits.utility import diagnosis, prd
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
    rate = identification_rate(gallery, np.array([0, 1]), probe, np.array([0, 1, 0]))
    assert rate.value == pytest.approx(2 / 3)


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
