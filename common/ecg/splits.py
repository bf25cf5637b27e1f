"""Who trains, who tests: each patient's split in time, and the patients nobody trains on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SHARES = (0.70, 0.15)  # train, validation; the rest is test
_SHORT = 60.0  # s; a shorter record is never cut


def split_parts(
    patient: NDArray[np.integer],
    record: NDArray[np.integer],
    start: NDArray[np.floating],
    seconds: float,
    record_seconds: NDArray[np.floating],
) -> NDArray[np.uint8]:
    """Split every patient's windows 70/15/15 in time: train, then validation, then test.

    A unit is one window, or a whole record that is shorter than 60 s. A patient's records make
    one sequence in record order. Test has a unit where the patient has two or more, validation
    where three or more.

    Args:
        patient: patient of each window.
        record: record of each window; numbers rise in time.
        start: start of each window in its record, s.
        seconds: length of a window.
        record_seconds: length of each window's record.

    Returns:
        Per window, an index into `protocol.PARTS`.
    """
    unit_start = np.where(np.asarray(record_seconds) < max(_SHORT, seconds), 0.0, start)
    parts = np.zeros(len(patient), dtype=np.uint8)
    order = np.lexsort((unit_start, record, patient))
    if not len(order):
        return parts
    owner, keys = patient[order], np.stack([record[order], unit_start[order]])
    edges = np.flatnonzero(np.diff(owner)) + 1
    for rows in np.split(np.arange(len(order)), edges):
        moved = (np.diff(keys[:, rows], axis=1) != 0).any(axis=0)
        unit = np.concatenate([[0], np.cumsum(moved)])
        train, validation = _sizes(int(unit[-1]) + 1)
        part = (unit >= train).astype(np.uint8) + (unit >= train + validation)
        parts[order[rows]] = part
    return parts


def _sizes(units: int) -> tuple[int, int]:
    """Units of train and of validation."""
    if units < 3:
        return 1, 0
    validation = max(1, round(_SHARES[1] * units))
    train = min(max(1, round(_SHARES[0] * units)), units - validation - 1)
    return train, validation


def reserve_patients(patients: Sequence[str], share: float, seed: int, site: str = "") -> set[str]:
    """Patients that no training sees, drawn by seed, site and name, whatever their order.

    At least one where the share is positive and there are three or more; at least two remain.
    """
    names = sorted(set(patients))
    if share <= 0 or len(names) < 3:
        return set()
    count = min(max(1, round(share * len(names))), len(names) - 2)

    def rank(name: str) -> str:
        return hashlib.sha256(repr((seed, site, name)).encode()).hexdigest()

    return set(sorted(names, key=rank)[:count])
