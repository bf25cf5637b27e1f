"""Sex and age, from headers and tables."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from common.ecg.demographics import age_band, demographics_of
from common.ecg.hospital_file import load_hospital
from tests.common.ecg.made import write_hospital


def test_a_table(consortium: Path) -> None:
    shdb = load_hospital(consortium / "shdb-af" / "hospital.yaml")
    sex, age = demographics_of(shdb, "001", [])
    assert sex in (0, 1) and 20 < age < 95


@pytest.mark.parametrize(
    ("comments", "sex", "age"),
    [
        (["69 M 1085 1629 x1", "Digoxin"], 0, 69),
        (["-1 M 742 654 x1"], 0, math.nan),
        (["Age: 46  Sex: M"], 0, 46),
        (["Age: 25", "Sex: male", "ECG date: 26.04.2005"], 0, 25),
        (["Age: 0", "Sex: female"], 1, math.nan),
        (["<age>: 65 <sex>: F <diagnoses> Acute MI"], 1, 65),
        (["Dosage: 12", "none"], -1, math.nan),
        ([], -1, math.nan),
    ],
)
def test_every_dialect_of_the_header(
    tmp_path: Path, comments: list[str], sex: int, age: float
) -> None:
    found = demographics_of(load_hospital(write_hospital(tmp_path)), "a", comments)
    assert found == pytest.approx((sex, age), nan_ok=True)


def test_age_bands() -> None:
    ages = (1, 39.9, 40, 54, 55, 65, 74.9, 75, 99)
    assert [age_band(age) for age in ages] == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    assert age_band(math.nan) == -1
