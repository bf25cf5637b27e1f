"""Which records of SHDB-AF 1.0.1 stand for its 100 patients in the REAN paper."""

from __future__ import annotations

from pathlib import Path

import wfdb

from common.ecg.tables import column, read_table, row_of
from common.errors import InputError

PATIENTS = 100
TABLE = "AdditionalData.csv"
_SAME_AS_005 = "020"  # the same recording under a second name


def select(folder: Path) -> list[str]:
    """One record of each of 100 subjects: those with annotated rhythms first, in record order.

    The release holds 128 recordings of 122 subjects, of which some 30 have no annotated rhythm.
    The paper (arXiv:2607.06037, Table II) counts 100 subjects and says no more; its number of
    windows leaves SHDB-AF 2,378 h, which is one Holter a subject. So of a subject's recordings
    the first with an annotated rhythm counts, or else the first; unannotated subjects only fill
    up to 100.

    Raises:
        InputError: the list or the table is not there, or the table names no subjects.
    """
    try:
        records = sorted((folder / "RECORDS.txt").read_text().split())
    except OSError as error:
        raise InputError(f"record list is '{folder / 'RECORDS.txt'}'; it cannot be read: "
                         f"{error.strerror}") from None
    rows = read_table(folder / TABLE)
    chosen: dict[str, tuple[bool, str]] = {}  # subject -> (not annotated, record)
    for record in records:
        subject = column(row_of(rows, record), ("subject_id", "patient_id", "subject", "patient"))
        if not subject:
            raise InputError(f"{TABLE} has no Subject_ID for record {record!r}")
        if record != _SAME_AS_005:
            found = (not _annotated(folder / record), record)
            chosen[subject] = min(chosen.get(subject, found), found)
    return sorted(record for _, record in sorted(chosen.values())[:PATIENTS])


def _annotated(path: Path) -> bool:
    """Whether the annotations name a rhythm; "(N" there means "not annotated"."""
    try:
        notes = wfdb.rdann(str(path), "atr").aux_note
    except Exception:  # missing or damaged: reading the record will say so
        return False
    return any(note.strip("\0 ") not in ("", "(N") for note in notes)
