"""Record lists and whose the records are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from common.ecg.hospital_file import load_hospital
from common.ecg.subjects import list_records, patient_of
from common.errors import InputError
from tests.common.ecg.made import write_hospital


def test_the_synthetic_hospitals(consortium: Path) -> None:
    hospital = load_hospital(consortium / "mitdb" / "hospital.yaml")
    assert list_records(hospital) == ["100", "102", "201", "202"]
    assert patient_of(hospital, list_records(hospital))["202"] == "201"
    incart = load_hospital(consortium / "incartdb" / "hospital.yaml")
    assert patient_of(incart, ["I01", "I02", "I03"]) == {"I01": "1", "I02": "1", "I03": "2"}


def test_folders_natural_order_and_leading_zeros(tmp_path: Path) -> None:
    for name in ("p10/r1", "p2/r10", "p2/r9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.hea").touch()
    hospital = load_hospital(write_hospital(tmp_path, subjects="folder"))
    assert list_records(hospital) == ["p2/r9", "p2/r10", "p10/r1"]
    assert patient_of(hospital, ["p2/r9", "p10/r1"]) == {"p2/r9": "p2", "p10/r1": "p10"}
    merged = load_hospital(write_hospital(tmp_path, same_patient="[[005, 020]]"))
    assert patient_of(merged, ["005", "020", "021"]) == {"005": "005", "020": "005", "021": "021"}
    with pytest.raises(InputError, match="'020'"):
        patient_of(merged, ["005"])
    (tmp_path / "RECORDS").write_text("../x\n")
    with pytest.raises(InputError, match=r"\.\./x"):
        list_records(merged)


def test_patients_named_in_headers(consortium: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(consortium / "incartdb", tmp_path / "incartdb"))
    file = folder / "hospital.yaml"
    file.write_text(file.read_text().replace("subjects.csv", "header"))
    hospital = load_hospital(file)
    by_table = load_hospital(consortium / "incartdb" / "hospital.yaml")
    records = list_records(hospital)
    assert patient_of(hospital, records) == patient_of(by_table, records)
    header = folder / "I01.hea"
    header.write_text(header.read_text().replace("# patient 1", ""))
    with pytest.raises(InputError, match="record I01: its header names no patient"):
        patient_of(hospital, records)
    header.unlink()
    assert patient_of(hospital, records)["I01"] == "I01"
