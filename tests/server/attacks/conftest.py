"""A case of four patients who differ in frequency, small enough to attack in seconds."""

from dataclasses import replace

import numpy as np
import pytest

from common.config import Audit, Profile, Settings
from server.attacks.case import Case
from server.bundles import Bundles

PATIENTS, N, LENGTH = 4, 160, 400


def made(released=None):
    """Windows of waves, in time order: 70 % for training, then the test part."""
    rng = np.random.default_rng(0)
    patient = np.arange(N) % PATIENTS
    time = np.linspace(0, 8, LENGTH)
    waves = np.sin(time * (3 + 4 * patient[:, None]) + rng.random((N, 1)) * 6) / 2 + 0.5
    clean = waves[:, None].astype(np.float32)
    part = np.where(np.arange(N) < 0.7 * N, 0, 2)
    zero = np.zeros(N, dtype=np.int64)
    start = 8.0 * (np.arange(N) // PATIENTS) + 1000 * (part == 2)
    return Bundles(clean, clean if released is None else released(clean, patient, rng), patient,
                   patient, zero, part, patient % 2, patient, zero, start,
                   np.full(N, 15, np.uint8), zero.astype(bool), {}, [])


def noise(clean, patient, rng):
    """Nothing is left."""
    return rng.random(clean.shape).astype(np.float32)


def marked(clean, patient, rng):
    """Nothing is left but a planted marker: a spike of the patient's own width, anywhere."""
    out = noise(clean, patient, rng)
    for row, who, first in zip(out[:, 0], patient, rng.integers(0, LENGTH - 40, N), strict=True):
        row[first : first + 3 + 10 * who] = 4
    return out


@pytest.fixture
def case(tmp_path):
    """Of a release that does nothing."""
    audit = Audit(steps=60, batch=16, width=4, attacks=[])
    settings = Settings(threads=1, device="cpu", audit=audit,
                        profile=replace(Profile(), sampling_rate=50))
    return Case(made(), settings, tmp_path, lambda what: None)
