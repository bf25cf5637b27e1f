"""Gallery and probe halves, and the identification rate that Listing 34.4 prints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.audits.matching import match
from common.audits.reidentification import halves, identification_rate


@pytest.mark.parametrize(("seed", "hits"), [(0, 15), (1, 21), (2, 19)])
def test_the_chapters_listing_is_matched_to_the_digit(seed, hits):
    # Listing 34.4 of the chapter on biometric leakage, run on these embeddings, printed
    # 0.36585365853658536, 0.5121951219512195 and 0.4634146341463415, chance 0.09090909090909091.
    generator = np.random.default_rng(34)
    subject = np.repeat(np.arange(12), np.arange(1, 13))
    generator.shuffle(subject)
    centre = generator.normal(size=(12, 8))
    embeddings = centre[subject] + 1.2 * generator.normal(size=(len(subject), 8))
    half = halves(subject, np.arange(len(subject)), seed)
    gallery, probe = half == 0, half == 1
    found = identification_rate(match(embeddings[gallery], subject[gallery], embeddings[probe],
                                      subject[probe]))
    assert (found.value, found.chance, found.n) == (hits / 41, 1 / 11, 41)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40),
       st.integers(0, 5))
def test_no_recording_lies_in_both_halves(rows, seed):
    patient, record = (np.array(column) for column in zip(*rows, strict=True))
    record = record + 10 * patient  # a record is one person's
    half = halves(patient, record, seed)
    for who in np.unique(patient):
        own = patient == who
        sides = {part: set(record[own & (half == part)]) for part in (-1, 0, 1)}
        total = len(set(record[own]))
        if total < 2:
            assert not sides[0] and not sides[1]
        else:
            assert not sides[-1] and not sides[0] & sides[1]
            assert len(sides[0]) == total // 2 and len(sides[1]) == total - total // 2
