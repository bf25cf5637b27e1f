"""Two folders of WFDB records, original and released, as the bundles that the auditor attacks.

A release is read as a recipient would read it: the samples that were written, cut and normalized
like the originals, but whatever their quality: a tool that writes the highest sample at the end of
the range has not clipped it, and an anonymizer that clips has still released. A released window
belongs to the original one at the same time of the record of the same name; where there is none,
the window was not released.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import wfdb
from numpy.typing import NDArray

from common.config import Settings
from common.ecg.hospital_file import HospitalFile
from common.ecg.store import Store
from common.ecg.subjects import list_records
from common.ecg.windows import WindowSettings, prepare
from common.errors import InputError
from common.protocol import PARTS
from server.bundles import Bundles

_DATE = re.compile(r"\bdate\s*[:=]\s*(\d{1,2})\.(\d{1,2})\.(\d{4})", re.IGNORECASE)  # of ECG-ID
_ENROLLED = 0.7  # share of a patient's released windows that may be enrolled, as in a run


@dataclass(frozen=True)
class Folders:
    """What the user says of the two folders.

    Args:
        original: folder of the original records.
        released: folder of the released ones, under the same names.
        subjects: "record", "folder" or a CSV of record and patient; empty: "folder" where records
            lie in folders below, else "record".
        leads: names of the lead, the preferred first; empty: each record's first.
        labels: of the originals, as in a hospital file.
    """

    original: Path
    released: Path
    subjects: str = ""
    leads: tuple[str, ...] = ()
    labels: str = "none"


def load_folders(folders: Folders, settings: Settings, kept: Path,
                 progress: Callable[[str], None]) -> Bundles:
    """Cut both folders into windows and pair them.

    Args:
        folders: what to read.
        settings: rate and length of the windows, seed, threads.
        kept: where prepared windows are kept.
        progress: told what is done next.

    Raises:
        InputError: a folder has no usable record, or nothing of one is in the other.
    """
    progress(f"reading {folders.original}")
    original = _prepared(folders, folders.original, "original", settings, kept)
    progress(f"reading {folders.released}")
    released = _prepared(folders, folders.released, "released", settings, kept)
    found = _paired(original, released)
    if not (found >= 0).any():
        names = ", ".join(released.info["records"][:3])
        raise InputError(f"released is '{folders.released}', whose records ({names}, ...) have 0 "
                         f"windows in common with those of '{folders.original}' "
                         f"({', '.join(original.info['records'][:3])}, ...); at least 1 is needed: "
                         "records are paired by name")
    windows = np.full(original.windows.shape, np.nan, dtype=np.float32)
    windows[found >= 0] = released.windows[found[found >= 0]]
    return _bundles(original, released, windows, folders)


def _prepared(folders: Folders, folder: Path, name: str, settings: Settings, kept: Path) -> Store:
    """The windows of one folder."""
    if not folder.is_dir():
        raise InputError(f"{name} is '{folder}'; allowed is a folder of WFDB records")
    hospital = HospitalFile(
        name=name, path=folder.resolve(), leads=(folders.leads or ("?",),), subjects="record",
        same_patient=(), demographics="header", labels=folders.labels, file=folder / name)
    if name == "released":
        hospital = replace(hospital, labels="none")
    records = list_records(hospital)
    rule = folders.subjects or ("folder" if any("/" in record for record in records) else "record")
    if rule.endswith(".csv"):
        rule = str(Path(rule).resolve())
    hospital = replace(hospital, subjects=rule,
                       leads=(folders.leads or _first_leads(folder, records),))
    return prepare(hospital, kept, WindowSettings(
        settings.profile.sampling_rate, settings.profile.seconds, 0.0, settings.seed,
        checked=name == "original"),
        workers=settings.threads)


def _first_leads(folder: Path, records: list[str]) -> tuple[str, ...]:
    """Names of the records' first leads, the most frequent first."""
    names: Counter[str] = Counter()
    for record in records:
        try:
            names[wfdb.rdheader(str(folder / record)).sig_name[0]] += 1
        except Exception:  # wfdb raises many kinds; preparing leaves the record out and says why
            continue
    if not names:
        raise InputError(f"folder is '{folder}'; it has 0 readable WFDB headers, 1 is needed")
    return tuple(name for name, _ in names.most_common())


def _paired(original: Store, released: Store) -> NDArray[np.int64]:
    """Row of each original window in the released store, [n]; -1 where there is none."""
    def keys(store: Store) -> list[tuple[str, float]]:
        names = store.info["records"]
        return [(names[record], round(float(start), 3)) for record, start in
                zip(store.index["record"], store.index["start"], strict=True)]

    rows = {key: row for row, key in enumerate(keys(released))}
    return np.array([rows.get(key, -1) for key in keys(original)], dtype=np.int64)


def _bundles(original: Store, released: Store, windows: NDArray[np.float32],
             folders: Folders) -> Bundles:
    index, info = original.index, original.info
    n, patient = len(index), index["patient"].astype(np.int64)
    days = np.array([_day(folders.original / record) for record in info["records"]])
    there = ~np.isnan(windows[:, 0, 0])
    about = {key: info[key] for key in ("patients", "records", "hours", "skipped", "left_out")}
    return Bundles(
        np.asarray(original.windows), windows, patient, index["record"].astype(np.int64),
        np.zeros(n, np.int64), _parts(index["part"].astype(np.int64), patient, there),
        index["sex"].astype(np.int64), index["age"].astype(np.int64),
        np.full(n, -1, np.int64), index["start"].astype(float), original.labels("strict"),
        np.zeros(n, bool), {},
        [{"site": "original", "data": about},
         {"site": "released", "data": {key: released.info[key] for key in about}}],
        days[index["record"]], original.beats() if len(original.beats().time) else None)


def _parts(part: NDArray[np.int64], patient: NDArray[np.int64],
           there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The originals' parts; where only some windows were released, these are divided anew.

    Releases are often made of one stretch, such as the test part: then its first 70 % may be
    enrolled, the rest is attacked, and all that was not released is known clean.
    """
    if all((there & (part == i) & (patient == who)).any() or not ((part == i)
           & (patient == who)).any() for i in (0, 2) for who in np.unique(patient)):
        return part
    out = np.where(there, -1, PARTS.index("train"))
    for who in np.unique(patient):
        rows = np.flatnonzero(there & (patient == who))
        first = int(_ENROLLED * len(rows))
        out[rows[:first]], out[rows[first:]] = PARTS.index("train"), PARTS.index("test")
    return out


def _day(record: Path) -> int:
    """Day of a record, counted from the year 1; -1 where its header names none."""
    try:
        header = wfdb.rdheader(str(record))
        if header.base_date:
            return int(header.base_date.toordinal())
        found = _DATE.search("\n".join(header.comments))
        return datetime.date(*(int(part) for part in reversed(found.groups()))).toordinal() \
            if found else -1
    except Exception:  # no WFDB header, or no date of this calendar
        return -1
