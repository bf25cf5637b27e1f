"""Blocks, layers and ranks agree with the whole similarity matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.audits import matching
from common.audits.matching import match, unit


def whole(gallery, gallery_patient, probe):
    """[n, patients] in the order of the patients' names."""
    near = unit(probe) @ unit(gallery).T
    names = np.unique(gallery_patient)
    return names, np.stack([near[:, gallery_patient == name].max(1) for name in names], axis=1)


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 8), st.integers(0, 99),
       st.integers(1, 6), st.integers(1, 6))
def test_agrees_with_the_whole_matrix(m, n, patients, seed, columns, rows):
    rng = np.random.default_rng(seed)
    gallery, probe = (rng.standard_normal((k, 3)).astype(np.float32) for k in (m, n))
    who, claimed = 7 * rng.integers(0, patients, m), 7 * rng.integers(0, patients, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_COLUMNS", columns)  # several blocks, both ways, and stacks
        patch.setattr(matching, "_ELEMENTS", rows * columns)
        found = match(gallery, who, probe, claimed)
    names, near = whole(gallery, who, probe)
    assert np.array_equal(found.rows, np.flatnonzero(np.isin(claimed, names)))
    assert found.enrolled == len(names)
    for i, row in enumerate(found.rows):
        own = near[row, names == claimed[row]][0]
        assert found.own[i] == pytest.approx(own, abs=1e-6)
        assert found.rank[i] == np.sum(near[row] > own + 1e-6)
        others = np.sort(near[row, names != claimed[row]])
        assert np.sort(found.others[i]) == pytest.approx(others, abs=1e-6)


def test_equally_near_patients_are_ranked_by_a_coin():
    same, who = np.ones((1000, 4), np.float32), np.arange(1000) % 10
    rank = match(same, who, same, who).rank
    assert np.bincount(rank, minlength=10) == pytest.approx(100, abs=50)


def test_others_are_drawn_without_the_own_patient():
    vectors = np.eye(50, dtype=np.float32)
    found = match(vectors, np.arange(50), vectors, np.arange(50), others=7)
    assert found.others.shape == (50, 7) and np.all(found.others == 0) and np.all(found.own == 1)
