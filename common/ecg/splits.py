"""Who trains, who tests: each patient's split in time, the patients nobody trains on, the store.

A `Store` is windows on disk with one index row each, which says whose they are and their part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.protocol import AGE_BANDS, PARTS, SEXES

INDEX = np.dtype(
    [("patient", "<i4"), ("record", "<i4"), ("start", "<f8"), ("strict", "u1"), ("paper", "u1"),
     ("sex", "i1"), ("age", "i1"), ("part", "u1"), ("reserved", "?")]
)  # fmt: skip
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


class Store:
    """Windows on disk, [n, leads, length] in [0, 1], with an index row for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.info: dict[str, Any] = json.loads((path / "store.json").read_text())
            self.index: NDArray[Any] = np.load(path / "index.npy")
            self.windows: NDArray[np.float32] = np.load(path / "windows.npy", mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"store is '{path}'; it cannot be opened: {error}") from None
        if self.index.dtype != INDEX or len(self.index) != len(self.windows):
            raise InputError(f"store is '{path}'; its index does not fit its windows")

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a store without loading its windows."""
        return cls(Path(path))

    def select(self, part: str | None = None, reserved: bool | None = None) -> NDArray[np.int64]:
        """Indices of the windows of one part, of reserved patients or of the others."""
        if part is not None and part not in PARTS:
            raise InputError(f"part is {part!r}; allowed is one of {', '.join(PARTS)}")
        keep = np.ones(len(self.index), dtype=bool)
        if part is not None:
            keep &= self.index["part"] == PARTS.index(part)
        if reserved is not None:
            keep &= self.index["reserved"] == reserved
        return np.flatnonzero(keep).astype(np.int64)

    def labels(self, mode: str) -> NDArray[np.uint8]:
        """Masks of possible classes per window; `mode` is "strict" or "paper"."""
        if mode not in ("strict", "paper"):
            raise InputError(f"labels is {mode!r}; allowed is strict, paper")
        return np.asarray(self.index[mode], dtype=np.uint8)


def summary(index: NDArray[Any]) -> dict[str, dict[str, int]]:
    """Patients per sex and per age band."""
    rows = index[np.unique(index["patient"], return_index=True)[1]]
    found: dict[str, dict[str, int]] = {}
    for key, names in (("sex", SEXES), ("age", AGE_BANDS)):
        found[key] = {name: int((rows[key] == i).sum()) for i, name in enumerate(names)}
        found[key]["unknown"] = int((rows[key] < 0).sum())
    return found
