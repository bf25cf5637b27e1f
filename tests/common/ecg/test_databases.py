"""Hospital files, record lists, patients and demographics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from common.ecg.databases import (
    age_band,
    demographics_of,
    list_records,
    load_hospital,
    patient_of,
)
from common.errors import InputError

GOOD = {
    "name": "a",
    "path": ".",
    "leads": "[[I]]",
    "subjects": "record",
    "demographics": "header",
    "labels": "none",
}


def write(folder: Path, **changes: str) -> Path:
    """A hospital file with some keys changed; an empty value drops the key."""
    file = folder / "hospital.yaml"
    values = {key: value for key, value in {**GOOD, **changes}.items() if value}
    file.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    return file


def test_the_synthetic_hospitals(consortium: Path) -> None:
    hospital = load_hospital(consortium / "mitdb" / "hospital.yaml")
    assert hospital.path == (consortium / "mitdb").resolve()
    assert hospital.leads == (("MLII", "V5"),)
    assert list_records(hospital) == ["100", "102", "201", "202"]
    assert patient_of(hospital, list_records(hospital))["202"] == "201"
    incart = load_hospital(consortium / "incartdb" / "hospital.yaml")
    assert patient_of(incart, ["I01", "I02", "I03"]) == {"I01": "1", "I02": "1", "I03": "2"}
    shdb = load_hospital(consortium / "shdb-af" / "hospital.yaml")
    sex, age = demographics_of(shdb, "001", [])
    assert sex in (0, 1) and 20 < age < 95


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": "beat"}, "labels is 'beat'"),
        ({"colour": "red"}, "key is 'colour'"),
        ({"leads": ""}, "'leads' is missing"),
        ({"leads": "I"}, "leads is 'I'"),
        ({"path": "nowhere"}, "nowhere"),
        ({"name": "../x"}, "name is '../x'"),
        ({"subjects": "people"}, "subjects is 'people'"),
        ({"subjects": "people.csv"}, "people.csv"),
        ({"same_patient": "[[a]]"}, "same_patient"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match="allowed|needed") as caught:
        load_hospital(write(tmp_path, **changes))
    assert words in str(caught.value)


def test_files_that_are_no_hospital(tmp_path: Path) -> None:
    for content in (None, b"[", b"- a\n", b"\xff\xfe\x00"):
        file = tmp_path / "h.yaml"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InputError, match=r"h\.yaml"):
            load_hospital(file)


def test_folders_natural_order_and_leading_zeros(tmp_path: Path) -> None:
    for name in ("p10/r1", "p2/r10", "p2/r9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.hea").touch()
    hospital = load_hospital(write(tmp_path, subjects="folder"))
    assert list_records(hospital) == ["p2/r9", "p2/r10", "p10/r1"]
    assert patient_of(hospital, ["p2/r9", "p10/r1"]) == {"p2/r9": "p2", "p10/r1": "p10"}
    merged = load_hospital(write(tmp_path, same_patient="[[005, 020]]"))
    assert patient_of(merged, ["005", "020", "021"]) == {"005": "005", "020": "005", "021": "021"}
    with pytest.raises(InputError, match="'020'"):
        patient_of(merged, ["005"])
    (tmp_path / "RECORDS").write_text("../x\n")
    with pytest.raises(InputError, match=r"\.\./x"):
        list_records(merged)


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
    found = demographics_of(load_hospital(write(tmp_path)), "a", comments)
    assert found == pytest.approx((sex, age), nan_ok=True)


def test_age_bands() -> None:
    ages = (1, 39.9, 40, 54, 55, 65, 74.9, 75, 99)
    assert [age_band(age) for age in ages] == [0, 0, 1, 1, 2, 3, 3, 4, 4]
    assert age_band(math.nan) == -1
