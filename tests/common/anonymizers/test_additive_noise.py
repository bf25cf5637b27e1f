"""Noise of the stated scale, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from common.anonymizers.additive_noise import GaussianNoise, LaplacianNoise
from common.anonymizers.contract import Effort
from common.audits.utility import prd


@pytest.mark.parametrize(("method", "spread"), [(GaussianNoise, 1.0), (LaplacianNoise, 2**0.5)])
def test_noise_has_its_scale_and_is_drawn_anew(hospital, method, spread):
    noise = method(0.1)
    noise.fit(hospital.train, hospital.frozen, Effort(1))
    released = noise.anonymize(hospital.test, seed=1)
    change = released - hospital.test.x
    assert released.shape == hospital.test.x.shape and released.dtype == np.float32
    assert change.std() == pytest.approx(0.1 * spread, rel=0.02) and abs(change.mean()) < 0.001
    kurtosis = np.mean(change**4) / np.mean(change**2) ** 2
    assert kurtosis == pytest.approx(3 if method is GaussianNoise else 6, rel=0.1)
    assert np.array_equal(released, noise.anonymize(hospital.test, seed=1))
    assert not np.array_equal(released, noise.anonymize(hospital.test, seed=2))


def test_much_noise_hides_the_patient_and_ruins_the_diagnosis(hospital):
    x, patient = hospital.test.x, hospital.test.patient
    identity, auroc = hospital.accuracy("identity", x), hospital.auroc(x)
    assert identity > 0.7 and auroc > 0.9  # the judges have learned
    noisy = GaussianNoise(0.4).anonymize(hospital.test)
    assert hospital.accuracy("identity", noisy) < 0.6 * identity
    assert hospital.auroc(noisy) < auroc - 0.1
    small = GaussianNoise(0.01).anonymize(hospital.test)
    assert prd(x, small, patient).value < prd(x, noisy, patient).value
