"""The split in time and the reserved patients."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.ecg.splits import reserve_patients, split_parts


@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=4),
       st.randoms(use_true_random=False))  # fmt: skip
def test_every_patient_is_split_in_time(people: list[list[int]], random: object) -> None:
    rows, record = [], 0
    for patient, records in enumerate(people):
        for windows in records:
            rows += [(patient, record, 8.0 * w, 8.0 * windows + 1) for w in range(windows)]
            record += 1
    table = np.array(rows)
    shuffled = np.random.default_rng(len(rows)).permutation(len(rows))
    patient, record_of, start, length = table[shuffled].T
    found = split_parts(patient.astype(int), record_of.astype(int), start, 8.0, length)
    parts = np.empty_like(found)
    parts[shuffled] = found
    for number in range(len(people)):
        own = table[:, 0] == number
        of = parts[own]
        assert (np.diff(of.astype(int)) >= 0).all()  # train, then validation, then test
        unit = np.where(table[own, 3] < 60, 0, table[own, 2])
        units = np.unique(np.stack([table[own, 1], unit]), axis=1).shape[1]
        assert 0 in of
        assert (2 in of) == (units >= 2) and (1 in of) == (units >= 3)
        for one in np.unique(table[own, 1]):
            chosen = table[own, 1] == one
            if table[own, 3][chosen][0] < 60:
                assert len(set(of[chosen])) == 1


def test_shares() -> None:
    zeros = np.zeros(200, int)
    parts = split_parts(zeros, zeros, np.arange(200) * 8.0, 8.0, np.full(200, 1600.0))
    assert np.bincount(parts).tolist() == [140, 30, 30]
    assert len(split_parts(zeros[:0], zeros[:0], np.zeros(0), 8.0, np.zeros(0))) == 0


@given(st.sets(st.text(max_size=5), max_size=30), st.floats(0, 0.5), st.integers(0, 99))
def test_reserved_patients(names: set[str], share: float, seed: int) -> None:
    order = sorted(names)
    found = reserve_patients(order, share, seed, "a")
    assert found == reserve_patients(order[::-1], share, seed, "a") and found <= names
    assert bool(found) == (share > 0 and len(names) >= 3)
    assert len(names) < 3 or len(names) - len(found) >= 2


def test_seed_and_site_decide() -> None:
    names = [str(i) for i in range(40)]
    assert len(reserve_patients(names, 0.15, 0, "a")) == 6
    draws = [reserve_patients(names, 0.15, s, site) for s, site in ((0, "a"), (1, "a"), (0, "b"))]
    assert draws[0] != draws[1] and draws[0] != draws[2]
