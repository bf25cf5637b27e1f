"""The hospital file: which records a hospital holds, whose they are, and what they state."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from common.errors import InputError

LABELS = ("beats+rhythm", "beats", "rhythm-comments", "none")
UNITS = ("mV", "uV", "V")
KEYS = ("name", "path", "records", "leads", "subjects", "same_patient", "demographics", "labels",
        "sampling_rate", "unit", "checksums", "leave_out")
_REQUIRED = ("name", "path", "leads", "subjects", "labels")


@dataclass(frozen=True)
class HospitalFile:
    """One hospital's data, as its YAML file describes them.

    Args:
        name: site name.
        path: folder of the records.
        leads: one list of acceptable lead names per wanted lead, the preferred first.
        subjects: "record", "folder", "header" (a comment such as "# patient 1"), or a CSV of
            record and patient.
        same_patient: groups of records (or patients) that are one person.
        demographics: "header", "none", or a CSV of record, age and sex.
        labels: one of `LABELS`.
        file: the YAML file itself.
        records: file that lists the records, one a line; empty: RECORDS, RECORDS.txt, or all.
        sampling_rate: Hz, of CSV and Parquet records; 0 where there are none.
        unit: of CSV and Parquet records, one of `UNITS`.
        checksums: "header" leaves out a WFDB record whose samples do not have the checksum that
            its header states; "ignore" takes it as it is.
        leave_out: file that lists patients who take no part, one a line; empty: none.
    """

    name: str
    path: Path
    leads: tuple[tuple[str, ...], ...]
    subjects: str
    same_patient: tuple[tuple[str, ...], ...]
    demographics: str
    labels: str
    file: Path
    records: str = ""
    sampling_rate: float = 0.0
    unit: str = "mV"
    checksums: str = "header"
    leave_out: str = ""


def load_hospital(file: Path) -> HospitalFile:
    """Read and check a hospital file.

    Raises:
        InputError: the file or its folder cannot be read, a key is unknown or missing, or a
            value is not allowed.
    """
    values = _read_yaml(file)
    file = Path(file).resolve()
    for key in values:
        if key not in KEYS:
            raise InputError(f"{file}: key is {key!r}; allowed is one of {', '.join(KEYS)}")
    for key in _REQUIRED:
        if key not in values:
            raise InputError(f"{file}: key {key!r} is missing; needed are {', '.join(_REQUIRED)}")
    name = _text(file, values, "name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise InputError(f"{file}: name is {name!r}; allowed are 1 to 64 letters, digits, . _ -")
    hospital = HospitalFile(
        name=name,
        path=_folder(file, _text(file, values, "path")),
        leads=_groups(file, "leads", _plain_leads(values["leads"]), 1),
        subjects=_text(file, values, "subjects"),
        same_patient=_groups(file, "same_patient", values.get("same_patient", []), 2),
        demographics=_text(file, {"demographics": "none", **values}, "demographics"),
        labels=_one_of(file, values, "labels", LABELS),
        file=file,
        records=_text(file, values, "records") if "records" in values else "",
        sampling_rate=_rate(file, values),
        unit=_one_of(file, values, "unit", UNITS),
        checksums=_one_of(file, values, "checksums", ("header", "ignore")),
        leave_out=_text(file, values, "leave_out") if "leave_out" in values else "",
    )
    if not hospital.leads:
        raise InputError(f"{file}: leads is []; allowed is one list of names per lead, or more")
    _check_source(hospital, "subjects", ("record", "folder", "header"))
    _check_source(hospital, "demographics", ("header", "none"))
    for name in filter(None, (hospital.records, hospital.leave_out)):
        table_path(hospital, name)
    return hospital


def _plain_leads(value: object) -> object:
    """`[II, V1]` means `[[II], [V1]]`: two leads, without alternatives."""
    return [[v] if isinstance(v, str) else v for v in value] if isinstance(value, list) else value


def _rate(file: Path, values: Mapping[str, object]) -> float:
    text = str(values.get("sampling_rate", "0"))
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if "sampling_rate" in values and not 1 <= rate <= 20000:
        raise InputError(f"{file}: sampling_rate is {text!r}; allowed is 1 to 20000 Hz")
    return rate


def _one_of(file: Path, values: Mapping[str, object], key: str, words: tuple[str, ...]) -> str:
    """A key that may be absent, which means the first word."""
    value = values.get(key, words[0])
    if value not in words:
        raise InputError(f"{file}: {key} is {value!r}; allowed is one of {', '.join(words)}")
    return str(value)


def _check_source(hospital: HospitalFile, key: str, words: tuple[str, ...]) -> None:
    """Raise InputError unless the key's value is one of the words or a CSV that exists."""
    value = getattr(hospital, key)
    if value in words:
        return
    if not value.lower().endswith(".csv"):
        raise InputError(
            f"{hospital.file}: {key} is {value!r}; allowed is {', '.join(words)} or a .csv"
        )
    table_path(hospital, value)


def _read_yaml(file: Path) -> dict[str, object]:
    try:  # BaseLoader: every scalar stays text, so record 001 is not the number 1
        tree = yaml.load(Path(file).read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise InputError(
            f"hospital file is '{file}'; allowed is a readable file ({error.strerror})"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"hospital file '{file}' is not YAML: {reason}") from None
    if not isinstance(tree, dict):
        raise InputError(f"hospital file '{file}' holds no keys; allowed are {', '.join(KEYS)}")
    return {str(key): value for key, value in tree.items()}


def _text(file: Path, values: Mapping[str, object], key: str) -> str:
    value = values[key]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{file}: {key} is {value!r}; allowed is a text that is not empty")
    return value.strip()


def _folder(file: Path, text: str) -> Path:
    try:
        folder = (file.parent / Path(text).expanduser()).resolve()
        with os.scandir(folder) as entries:
            next(entries, None)
        (folder / "RECORDS").exists()  # a folder may be listed without leave to enter it
    except (OSError, ValueError, RuntimeError) as error:  # a NUL byte, an unknown ~user
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{file}: path is {text!r}; allowed is a readable folder ({reason})"
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
    """Where a table or list of the hospital lies: by its records, else by the hospital file."""
    for folder in (hospital.path, hospital.file.parent):
        if os.path.isfile(folder / name):  # Path.is_file raises where it may not look
            return folder / name
    raise InputError(f"{hospital.file}: table is {name!r}; allowed is a file in {hospital.path}")
