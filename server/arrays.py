"""Two .npy arrays, original and released, as the bundles that the auditor attacks.

Windows [n, leads, L] are attacked like those of two folders; embeddings [n, d], of any encoder, are
compared as they are. A CSV says whose row is whose.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.reidentification import halves
from common.config import Settings
from common.ecg.demographics import age_band, sex_of, years
from common.errors import InputError
from common.protocol import ARRHYTHMIA_CLASSES, PARTS
from server.bundles import Bundles

Floats = NDArray[np.float32]
_ANY = (1 << len(ARRHYTHMIA_CLASSES)) - 1  # mask of a window of which no diagnosis is known


@dataclass(frozen=True)
class Arrays:
    """What the user gives.

    Args:
        original, released: .npy files, row by row the same windows. A released row that is NaN
            was not released.
        subjects: CSV with a row for each of theirs and the columns patient and, where known,
            record, sex and age (years). Without `record` each row is a recording of its own.
    """

    original: Path
    released: Path
    subjects: Path

    @property
    def embedded(self) -> bool:
        """Whether they hold embeddings rather than windows."""
        return _opened(self.original, "original").ndim == 2


def load_arrays(arrays: Arrays, settings: Settings) -> Bundles:
    """Read both, with each patient's recordings divided into a gallery and probes (`halves`).

    Windows are scaled to [0, 1] like any; embeddings lie in them as [n, 1, d].

    Raises:
        InputError: a file cannot be read, they do not fit each other, or windows do not last
            `profile.seconds` at `profile.sampling_rate`.
    """
    original, released = (_opened(file, name) for file, name in (
        (arrays.original, "original"), (arrays.released, "released")))
    if original.shape != released.shape or original.ndim not in (2, 3):
        raise InputError(f"released is {released.shape}, original {original.shape}; allowed is "
                         "twice the same, [rows, d] of embeddings or [rows, leads, samples]")
    table = _table(arrays.subjects, len(original))
    versions = [np.array(one, dtype=np.float32) for one in (original, released)]
    if original.ndim == 3:
        profile = settings.profile
        wanted = round(profile.sampling_rate * profile.seconds)
        if original.shape[2] != wanted:
            raise InputError(f"windows have {original.shape[2]} samples; allowed is {wanted}: set "
                             "profile.sampling_rate and profile.seconds to theirs "
                             f"({profile.sampling_rate} Hz, {profile.seconds:g} s)")
        versions = [_scaled(one) for one in versions]
    else:
        versions = [_or_nan(one[:, None, :]) for one in versions]
    return _bundles(versions[0], versions[1], table, settings.seed)


def _bundles(original: Floats, released: Floats, table: dict[str, list[str]],
             seed: int) -> Bundles:
    """Rows that the original lacks are in no part."""
    n = len(original)
    names, patient = np.unique(table["patient"], return_inverse=True)
    records, record = np.unique(table.get("record", [str(i) for i in range(n)]),
                                return_inverse=True)
    if "record" not in table:  # in the rows' own order, as `halves` draws
        records, record = np.arange(n).astype(str), np.arange(n)
    missing = np.isnan(original[:, 0, 0])
    half = halves(patient, record, seed)
    part = np.where((half < 0) | missing, -1,
                    np.where(half == 1, PARTS.index("test"), PARTS.index("train")))
    if not (part == PARTS.index("test")).any():
        raise InputError("subjects has 0 patients with two recordings or more; at least 1 is "
                         "needed, since one is enrolled and another attacked")
    about = {"patients": names.tolist(), "records": records.tolist(), "hours": None,
             "skipped": {"missing or flat": int(missing.sum())} if missing.any() else {},
             "left_out": []}
    gone = int(np.isnan(released[:, 0, 0]).sum())
    after = {**about, "skipped": {"missing or flat": gone} if gone else {}}
    return Bundles(
        original, released, patient.astype(np.int64), record.astype(np.int64),
        np.zeros(n, np.int64), part.astype(np.int64),
        np.array([sex_of(text) for text in table.get("sex", [""] * n)], dtype=np.int64),
        np.array([age_band(years(text)) for text in table.get("age", [""] * n)], dtype=np.int64),
        np.full(n, -1, np.int64), np.zeros(n), np.full(n, _ANY, np.uint8), np.zeros(n, bool), {},
        [{"site": "original", "data": about}, {"site": "released", "data": after}])


def _opened(file: Path, name: str) -> NDArray[Any]:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{name} is '{file}'; it cannot be read as .npy: {error}") from None
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} is of {array.dtype}; allowed are numbers")
    return np.asarray(array)


def _table(file: Path, rows: int) -> dict[str, list[str]]:
    """Columns of the CSV, by their names in lower case."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            found = [{str(key).strip().lower(): str(value or "").strip()
                      for key, value in row.items()} for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"subjects is '{file}'; it cannot be read as CSV: {error}") from None
    if len(found) != rows or not rows or not all(row.get("patient") for row in found):
        raise InputError(f"subjects '{file}' has {len(found)} rows, "
                         f"{sum(bool(row.get('patient')) for row in found)} with a patient; "
                         f"allowed is a column patient and a row for each of {rows} windows")
    return {key: [row[key] for row in found] for key in found[0]}


def _scaled(windows: Floats) -> Floats:
    """Each lead of each window to [0, 1]; NaN throughout where one is missing or flat."""
    low, high = windows.min(axis=2, keepdims=True), windows.max(axis=2, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _or_nan((windows - low) / (high - low))


def _or_nan(rows: Floats) -> Floats:
    """Rows [n, leads, L], NaN throughout where one number is not finite."""
    rows[~np.isfinite(rows).all(axis=(1, 2))] = np.nan
    return rows
