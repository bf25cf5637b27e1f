"""The hospital file: which WFDB records a hospital holds, whose they are, and what they state."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from common.errors import InputError

LABELS = ("beats+rhythm", "beats", "rhythm-comments", "none")
_KEYS = ("name", "path", "leads", "subjects", "same_patient", "demographics", "labels")
_REQUIRED = ("name", "path", "leads", "subjects", "labels")
_RECORD_COLUMNS = ("record", "data_id", "id")
_SEXES = {"m": 0, "male": 0, "f": 1, "female": 1}
_BAND_STARTS = (40, 55, 65, 75)  # years; protocol.AGE_BANDS
_SEX = re.compile(r"(?:^|[\s<,;])(?:sex|gender)>?\s*[:=]\s*(male|female|m|f)\b", re.IGNORECASE)
_AGE = re.compile(r"(?:^|[\s<,;])age>?\s*[:=]\s*(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_BARE = re.compile(r"^\s*(-?\d+(?:\.\d+)?)\s+([MF])\b", re.IGNORECASE)  # mitdb: "69 M 1085 ..."


@dataclass(frozen=True)
class HospitalFile:
    """One hospital's data, as its YAML file describes them.

    Args:
        name: site name.
        path: folder of the records.
        leads: one list of acceptable lead names per wanted lead, the preferred first.
        subjects: "record", "folder", or a CSV of record and patient.
        same_patient: groups of records (or patients) that are one person.
        demographics: "header", "none", or a CSV of record, age and sex.
        labels: one of `LABELS`.
        file: the YAML file itself.
    """

    name: str
    path: Path
    leads: tuple[tuple[str, ...], ...]
    subjects: str
    same_patient: tuple[tuple[str, ...], ...]
    demographics: str
    labels: str
    file: Path


def load_hospital(file: Path) -> HospitalFile:
    """Read and check a hospital file.

    Raises:
        InputError: the file or its folder cannot be read, a key is unknown or missing, or a
            value is not allowed.
    """
    file = Path(file).resolve()
    values = _read_yaml(file)
    for key in values:
        if key not in _KEYS:
            raise InputError(f"{file}: key is {key!r}; allowed is one of {', '.join(_KEYS)}")
    for key in _REQUIRED:
        if key not in values:
            raise InputError(f"{file}: key {key!r} is missing; needed are {', '.join(_REQUIRED)}")
    name = _text(file, values, "name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise InputError(f"{file}: name is {name!r}; allowed are 1 to 64 letters, digits, . _ -")
    labels = _text(file, values, "labels")
    if labels not in LABELS:
        raise InputError(f"{file}: labels is {labels!r}; allowed is one of {', '.join(LABELS)}")
    hospital = HospitalFile(
        name=name,
        path=_folder(file, _text(file, values, "path")),
        leads=_groups(file, "leads", values["leads"], 1),
        subjects=_text(file, values, "subjects"),
        same_patient=_groups(file, "same_patient", values.get("same_patient", []), 2),
        demographics=_text(file, {"demographics": "none", **values}, "demographics"),
        labels=labels,
        file=file,
    )
    if not hospital.leads:
        raise InputError(f"{file}: leads is []; allowed is one list of names per lead, or more")
    for key, words in (("subjects", ("record", "folder")), ("demographics", ("header", "none"))):
        value = getattr(hospital, key)
        if value not in words and not value.lower().endswith(".csv"):
            raise InputError(f"{file}: {key} is {value!r}; allowed is {', '.join(words)} or a .csv")
        if value not in words:
            table_path(hospital, value)
    return hospital


def _read_yaml(file: Path) -> dict[str, object]:
    try:  # BaseLoader: every scalar stays text, so record 001 is not the number 1
        tree = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise InputError(
            f"hospital file is '{file}'; allowed is a readable file ({error.strerror})"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"hospital file '{file}' is not YAML: {reason}") from None
    if not isinstance(tree, dict):
        raise InputError(f"hospital file '{file}' holds no keys; allowed are {', '.join(_KEYS)}")
    return {str(key): value for key, value in tree.items()}


def _text(file: Path, values: Mapping[str, object], key: str) -> str:
    value = values[key]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{file}: {key} is {value!r}; allowed is a text that is not empty")
    return value.strip()


def _folder(file: Path, text: str) -> Path:
    folder = (file.parent / Path(text).expanduser()).resolve()
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as error:
        raise InputError(
            f"{file}: path is '{folder}'; allowed is a readable folder ({error.strerror})"
        ) from None
    return folder


def _groups(file: Path, key: str, value: object, least: int) -> tuple[tuple[str, ...], ...]:
    allowed = f"a list of lists of {least} or more names"
    bad = InputError(f"{file}: {key} is {value!r}; allowed is {allowed}")
    if not isinstance(value, list):
        raise bad
    for group in value:
        if not isinstance(group, list) or len(group) < least:
            raise bad
        if not all(isinstance(item, str) and item for item in group):
            raise bad
    return tuple(tuple(group) for group in value)


def table_path(hospital: HospitalFile, name: str) -> Path:
    """Where a CSV of the hospital lies: in the records' folder, else beside the hospital file."""
    for folder in (hospital.path, hospital.file.parent):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{hospital.file}: table is {name!r}; allowed is a file in {hospital.path}")


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p]


def list_records(hospital: HospitalFile) -> list[str]:
    """Record names relative to the folder, without suffix, in natural order.

    Raises:
        InputError: no record, or a name that leaves the folder.
    """
    lists = [p for n in ("RECORDS", "RECORDS.txt") if (p := hospital.path / n).is_file()]
    if lists:
        try:
            names = lists[0].read_text(encoding="utf-8").split()
        except (OSError, ValueError) as error:
            raise InputError(f"record list is '{lists[0]}'; it cannot be read: {error}") from None
    else:
        found = hospital.path.rglob("*.hea")
        names = [p.relative_to(hospital.path).as_posix() for p in found]
    records = sorted({name.removesuffix(".hea") for name in names}, key=_natural)
    for record in records:
        if record.startswith("/") or ".." in Path(record).parts:
            raise InputError(f"record is {record!r}; allowed is a name inside {hospital.path}")
    if not records:
        raise InputError(f"hospital {hospital.name} has no record in '{hospital.path}'")
    return records


def patient_of(hospital: HospitalFile, records: Sequence[str]) -> dict[str, str]:
    """The patient of every record.

    Raises:
        InputError: the subject table lacks a record, or `same_patient` names none.
    """
    if hospital.subjects == "record":
        patients = {record: record for record in records}
    elif hospital.subjects == "folder":
        patients = {record: Path(record).parent.as_posix() for record in records}
    else:
        rows = _table(table_path(hospital, hospital.subjects))
        patients = {}
        for record in records:
            patient = _column(_row(rows, record), ("patient", "subject"))
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


@lru_cache(maxsize=8)
def _table(file: Path) -> dict[str, dict[str, str]]:
    """Rows of a CSV by record name; column names in lower case."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [
                {str(k).strip().lower(): str(v or "").strip() for k, v in row.items()}
                for row in csv.DictReader(stream)
            ]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"table is '{file}'; it cannot be read as CSV: {error}") from None
    if rows and not any(column in rows[0] for column in _RECORD_COLUMNS):
        raise InputError(f"table '{file}' needs a column {', '.join(_RECORD_COLUMNS)}")
    return {_column(row, _RECORD_COLUMNS): row for row in rows}


def _row(rows: Mapping[str, dict[str, str]], record: str) -> dict[str, str]:
    last = Path(record).name
    for key in (record, last, last.lstrip("0")):
        if key in rows:
            return rows[key]
    return {}


def _column(row: Mapping[str, str], names: Sequence[str]) -> str:
    return next((row[name] for name in names if row.get(name)), "")


def demographics_of(
    hospital: HospitalFile, record: str, header_comments: Sequence[str]
) -> tuple[int, float]:
    """Sex (0 M, 1 F, -1 unknown) and age in years (NaN unknown) of a record."""
    if hospital.demographics == "none":
        return -1, math.nan
    if hospital.demographics == "header":
        return _from_comments(header_comments)
    row = _row(_table(table_path(hospital, hospital.demographics)), record)
    ages = [key for key in row if key == "age"] or [key for key in row if key.startswith("age")]
    sex = _SEXES.get(_column(row, ("sex", "gender")).lower(), -1)
    return sex, _age(_column(row, ages))


def _from_comments(comments: Sequence[str]) -> tuple[int, float]:
    if comments and (bare := _BARE.match(comments[0])):
        return _SEXES[bare[2].lower()], _age(bare[1])
    text = "\n".join(comments)
    sex, age = _SEX.search(text), _AGE.search(text)
    return (_SEXES[sex[1].lower()] if sex else -1), _age(age[1] if age else "")


def _age(text: str) -> float:
    try:
        age = float(text)
    except ValueError:
        return math.nan
    return age if 0 < age <= 130 else math.nan


def age_band(age: float) -> int:
    """Index into `protocol.AGE_BANDS`; -1 where the age is unknown."""
    return -1 if math.isnan(age) else sum(age >= start for start in _BAND_STARTS)
