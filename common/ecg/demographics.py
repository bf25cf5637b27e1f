"""Sex and age of a record's patient: from the header's comments or a table, and the age band."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from common.ecg.hospital_file import HospitalFile, table_path
from common.ecg.tables import column, read_table, row_of

_SEXES = {"m": 0, "male": 0, "f": 1, "female": 1}
_BAND_STARTS = (40, 55, 65, 75)  # years; protocol.AGE_BANDS
_SEX = re.compile(r"(?:^|[\s<,;])(?:sex|gender)>?\s*[:=]\s*(male|female|m|f)\b", re.IGNORECASE)
_AGE = re.compile(r"(?:^|[\s<,;])age>?\s*[:=]\s*(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_BARE = re.compile(r"^\s*(-?\d+(?:\.\d+)?)\s+([MF])\b", re.IGNORECASE)  # mitdb: "69 M 1085 ..."


def demographics_of(
    hospital: HospitalFile, record: str, header_comments: Sequence[str]
) -> tuple[int, float]:
    """Sex (0 M, 1 F, -1 unknown) and age in years (NaN unknown) of a record."""
    if hospital.demographics == "none":
        return -1, math.nan
    if hospital.demographics == "header":
        return _from_comments(header_comments)
    row = row_of(read_table(table_path(hospital, hospital.demographics)), record)
    ages = [key for key in row if key == "age"] or [key for key in row if key.startswith("age")]
    sex = sex_of(column(row, ("sex", "gender")))
    return sex, years(column(row, ages))


def _from_comments(comments: Sequence[str]) -> tuple[int, float]:
    if comments and (bare := _BARE.match(comments[0])):
        return _SEXES[bare[2].lower()], years(bare[1])
    text = "\n".join(comments)
    sex, age = _SEX.search(text), _AGE.search(text)
    return (_SEXES[sex[1].lower()] if sex else -1), years(age[1] if age else "")


def sex_of(text: str) -> int:
    """0 M, 1 F, -1 unknown, of a cell such as "F" or "female"."""
    return _SEXES.get(text.lower(), -1)


def years(text: str) -> float:
    """Age in years of a cell; NaN where it is none, or none of a person."""
    try:
        age = float(text)
    except ValueError:
        return math.nan
    return age if 0 < age <= 130 else math.nan


def age_band(age: float) -> int:
    """Index into `protocol.AGE_BANDS`; -1 where the age is unknown."""
    return -1 if math.isnan(age) else sum(age >= start for start in _BAND_STARTS)
