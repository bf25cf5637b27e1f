"""Which records a hospital holds, in order, and whose each of them is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.ecg.hospital_file import HospitalFile, table_path
from common.ecg.tables import column, read_table, row_of
from common.errors import InputError

RECORD_LISTS = ("RECORDS", "RECORDS.txt")
_TABLES = (".csv", ".parquet")  # records only where the hospital file states their rate
_PATIENT_COLUMNS = ("patient", "subject", "subject_id", "patient_id")
_PATIENT = re.compile(r"^#.*\bpatient\s*[:#]?\s*(\w\S*)", re.IGNORECASE | re.MULTILINE)


def files_below(folder: Path) -> list[Path]:
    """Every file of a folder and its subfolders.

    Raises:
        InputError: a folder cannot be read; a silent gap would change who is in the data.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"folder is '{error.filename}'; it cannot be read: {error.strerror}")

    return [Path(parent) / name for parent, _, names in os.walk(folder, onerror=refuse)
            for name in names]  # fmt: skip


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p]


def list_records(hospital: HospitalFile) -> list[str]:
    """Record names relative to the folder, without suffix, in natural order.

    They come from the hospital file's `records`, else from RECORDS or RECORDS.txt, else they are
    all .hea and .edf files, or .csv and .parquet files where `sampling_rate` is given.

    Raises:
        InputError: no record, or a name that leaves the folder.
    """
    file = list_file(hospital)
    if file:
        try:
            names = file.read_text(encoding="utf-8").split()
        except (OSError, ValueError) as error:
            raise InputError(f"record list is '{file}'; it cannot be read: {error}") from None
    else:
        names = _found(hospital)
    records = sorted({re.sub(r"\.(hea|edf|csv|parquet)$", "", n) for n in names}, key=_natural)
    for record in records:
        if record.startswith("/") or ".." in Path(record).parts:
            raise InputError(f"record is {record!r}; allowed is a name inside {hospital.path}")
    if not records:
        raise InputError(f"hospital {hospital.name} has no record in '{hospital.path}'")
    return records


def list_file(hospital: HospitalFile) -> Path | None:
    """The file that lists a hospital's records, where there is one."""
    if hospital.records:
        return table_path(hospital, hospital.records)
    lists = [p for n in RECORD_LISTS if os.path.isfile(p := hospital.path / n)]
    return lists[0] if lists else None


def _found(hospital: HospitalFile) -> list[str]:
    suffixes = _TABLES if hospital.sampling_rate else (".hea", ".edf")
    tables = {hospital.subjects, hospital.demographics}
    return [p.relative_to(hospital.path).as_posix() for p in files_below(hospital.path)
            if p.suffix in suffixes and p.name not in tables]


def patient_of(hospital: HospitalFile, records: Sequence[str]) -> dict[str, str]:
    """The patient of every record.

    Raises:
        InputError: the subject table or a header lacks the patient, or `same_patient` names none.
    """
    if hospital.subjects == "record":
        patients = {record: record for record in records}
    elif hospital.subjects == "folder":
        patients = {record: Path(record).parent.as_posix() for record in records}
    elif hospital.subjects == "header":
        patients = {record: _stated(hospital, record) for record in records}
    else:
        rows = read_table(table_path(hospital, hospital.subjects))
        patients = {}
        for record in records:
            patient = column(row_of(rows, record), _PATIENT_COLUMNS)
            if not patient:
                raise InputError(f"{hospital.subjects} has no patient for record {record!r}")
            patients[record] = patient
    for group in hospital.same_patient:
        merged = set()
        for item in group:
            matches = {p for r, p in patients.items() if item in (r, Path(r).name, p)}
            if not matches:
                raise InputError(
                    f"{hospital.file}: same_patient names {item!r}; allowed are records or "
                    f"patients of {hospital.name}"
                )
            merged |= matches
        first = min(merged, key=_natural)
        patients = {r: first if p in merged else p for r, p in patients.items()}
    return patients


def _stated(hospital: HospitalFile, record: str) -> str:
    """The patient a header's comment names, as incartdb's "# patient 1"."""
    try:
        text = (hospital.path / f"{record}.hea").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return record  # cutting leaves it out and says why
    found = _PATIENT.search(text)
    if not found:
        raise InputError(f"record {record}: its header names no patient; subjects is 'header', "
                         "which needs a comment such as '# patient 1'")
    return found[1]


def taking_part(hospital: HospitalFile, records: Sequence[str],
                patients: Mapping[str, str]) -> list[str]:
    """Records of those whom the hospital file's `leave_out` does not name.

    Args:
        hospital: its file.
        records: all of it.
        patients: record -> patient.

    Raises:
        InputError: the list cannot be read, or names nobody's patient.
    """
    if not hospital.leave_out:
        return list(records)
    file = table_path(hospital, hospital.leave_out)
    try:
        names = set(filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())))
    except (OSError, ValueError) as error:
        raise InputError(f"leave_out is '{file}'; it cannot be read: {error}") from None
    if unknown := sorted(names - set(patients.values())):
        raise InputError(f"leave_out is '{file}', which names {unknown[0]!r}; allowed are patients "
                         f"of {hospital.file}")
    return [record for record in records if patients[record] not in names]
