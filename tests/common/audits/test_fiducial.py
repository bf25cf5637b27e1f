"""Discriminants of hand-made features find people, whatever a single feature does."""

import numpy as np
import pytest

from common.audits.fiducial import discriminate
from common.audits.matching import match
from common.audits.reidentification import identification_rate


@pytest.mark.parametrize("odd", [[], [7]])
@pytest.mark.parametrize(("people", "each"), [(40, 6), (30, 7), (90, 4)])
def test_people_lie_together_even_if_waves_of_one_are_never_found(people, each, odd):
    generator = np.random.default_rng(0)
    patient = np.tile(np.arange(people), 2 * each)
    features = generator.normal(size=(people, 14))[patient]
    features += 0.3 * generator.normal(size=features.shape)
    features[np.isin(patient, odd), 7:] = np.nan  # indicators that vary within nobody
    known = people * each
    embedded = discriminate(features.astype(np.float32), patient, np.arange(known))
    found = identification_rate(match(embedded[:known], patient[:known], embedded[known:],
                                      patient[known:]))
    assert found.value > 0.8
