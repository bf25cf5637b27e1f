"""What waveforms tell of a patient: identity to who knows it, sex to a stranger, age to nobody."""

from dataclasses import replace

import numpy as np
import pytest

from common.errors import InputError
from server.attacks.latent import evidence
from tests.server.attacks.conftest import LENGTH, made, noise

PATIENTS, WINDOWS = 12, 16


def people():
    """Bundles of waves; their frequency tells sex, and a spike's place tells who it is."""
    rng = np.random.default_rng(0)
    patient = np.tile(np.arange(PATIENTS), WINDOWS)
    sex = patient % 2
    waves = np.sin(np.linspace(0, 8, LENGTH) * (4 + 12 * sex[:, None])
                   + rng.random((len(patient), 1)) * 6) / 4 + 0.5
    width = 4 + 6 * (patient // 2)
    for row, first, w in zip(waves, rng.integers(0, LENGTH - 60, len(patient)), width,
                             strict=True):
        row[first : first + w] = 1
    clean = waves[:, None].astype(np.float32)
    part = np.where(np.arange(len(patient)) < 0.7 * len(patient), 0, 2)
    zero = np.zeros(len(patient), dtype=np.int64)
    return replace(made(), clean=clean, released=noise(clean, patient, rng), patient=patient,
                   record=patient, hospital=zero, part=part, sex=sex, age=(patient // 3) % 4,
                   slot=zero, start=8.0 * (np.arange(len(patient)) // PATIENTS),
                   allowed=np.full(len(patient), 15, np.uint8), reserved=zero.astype(bool))


def test_clean_waveforms_tell_and_noise_does_not(case):
    found = evidence(replace(case, bundles=people()))
    assert found.enrolled == PATIENTS and found.sex.tolist() == [0, 1] * 6
    assert found.age.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    clean, released = found.told["clean"], found.told["released"]
    assert clean.sex.shape == (PATIENTS, 2) and clean.age.shape == (PATIENTS, 5)
    assert clean.sex.min() >= np.log(1e-3) - 1e-9  # of all windows together, not their sum
    assert np.mean(clean.sex.argmax(1) == found.sex) > 0.9  # of patients whom no probe saw
    assert clean.identity.mean() > 0.3 > released.identity.mean()
    assert np.mean(released.sex.argmax(1) == found.sex) < 0.85


def test_patients_of_unknown_sex_are_left_out(case):
    bundles = people()
    some = np.where(bundles.patient < 3, -1, bundles.sex)
    found = evidence(replace(case, bundles=replace(bundles, sex=some)))
    assert len(found.sex) == PATIENTS - 3 and found.enrolled == PATIENTS
    for first, known in ((9, 3), (12, 0)):
        few = np.where(bundles.patient < first, -1, bundles.sex)
        with pytest.raises(InputError, match=f"known of {known} patients"):
            evidence(replace(case, bundles=replace(bundles, sex=few)))
