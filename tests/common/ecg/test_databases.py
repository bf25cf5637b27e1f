"""What is known of each database, against its own files where they are here."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import wfdb

from common.ecg.databases import DATABASES, PAPER_SHARES, PAPER_WINDOWS
from common.ecg.demographics import demographics_of
from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.records import read_record
from common.ecg.shdb_af import select
from common.ecg.subjects import list_records, patient_of
from common.errors import InputError, RecordError


def hospital(slug: str, folder: Path, tmp_path: Path) -> HospitalFile:
    file = tmp_path / f"{slug}.yaml"
    file.write_text(DATABASES[slug].hospital_file().replace("path: .", f"path: {folder}"))
    return load_hospital(file)


def people(of: HospitalFile) -> dict[str, tuple[int, float]]:
    """Sex and age of each patient, from the headers."""
    owners = patient_of(of, list_records(of))
    found: dict[str, tuple[int, float]] = {}
    for record, owner in owners.items():
        stated = demographics_of(of, record, wfdb.rdheader(str(of.path / record)).comments)
        if owner not in found or math.isnan(found[owner][1]):
            found[owner] = stated
    return found


def test_the_papers_totals_are_those_of_its_table() -> None:
    rows = [database.paper for database in DATABASES.values() if database.paper]
    assert sum(row.patients for row in rows) == 186
    assert all(row.men + row.women == row.patients for row in rows)
    assert sum(PAPER_SHARES.values()) == pytest.approx(100)


@pytest.mark.parametrize("slug", ["mitdb", "ltdb"])
def test_patients_sexes_and_ages_are_the_papers(slug: str, real_data: Path, tmp_path: Path) -> None:
    of, paper = hospital(slug, real_data / slug, tmp_path), DATABASES[slug].paper
    assert paper is not None
    found = people(of)
    sexes = Counter(sex for sex, _ in found.values())
    ages = [age for _, age in found.values() if not math.isnan(age)]
    assert len(found) == paper.patients and (sexes[0], sexes[1]) == (paper.men, paper.women)
    assert (min(ages), max(ages)) == paper.ages
    assert len(ages) == {"mitdb": 45, "ltdb": 7}[slug]  # 184 of 186 with all of them


def test_ltdb_headers(real_data: Path, tmp_path: Path) -> None:
    """Gain 0, format 212, and 310 with a third lead in 15814; the samples are not here."""
    of = hospital("ltdb", real_data / "ltdb", tmp_path)
    heads = {record: wfdb.rdheader(str(of.path / record)) for record in list_records(of)}
    assert {head.fs for head in heads.values()} == {DATABASES["ltdb"].sampling_rate}
    assert {record: head.n_sig for record, head in heads.items() if head.n_sig != 2} == {
        "15814": 3}
    assert {head.fmt[0] for head in heads.values()} == {"212", "310"}
    assert sum(head.sig_len // (8 * 128) for head in heads.values()) == 66_351  # windows of 8 s
    for record in heads:
        with pytest.raises(RecordError, match=rf"file '{record}\.dat' is missing"):
            read_record(of, record)


def test_ltdb_samples_of_our_own_under_its_headers(real_data: Path, tmp_path: Path) -> None:
    """A header of the release, shortened to samples that are written in its format."""
    text = (real_data / "ltdb" / "15814.hea").read_text()
    lines = text.splitlines()
    lines[0] = lines[0].replace("10237440", "128")
    fields = [line.split() for line in lines[1:4]]
    for field in fields:
        field[6] = "0"  # samples of nothing but 0
    (tmp_path / "15814.hea").write_text("\n".join([lines[0], *map(" ".join, fields), *lines[4:]]))
    (tmp_path / "15814.dat").write_bytes(bytes(512))
    read = read_record(hospital("ltdb", tmp_path, tmp_path), "15814")
    assert read.leads == ("ECG1",) and read.signal.shape == (1, 128) and read.uncalibrated
    assert demographics_of(hospital("ltdb", tmp_path, tmp_path), "15814", read.comments) == (0, 58)


def test_incarts_table_and_its_readme_disagree(real_data: Path) -> None:
    """32 patients, 18 to 80 years, by the table 18 men and 14 women; the paper says 17 and 15."""
    paper = DATABASES["incartdb"].paper
    assert paper is not None
    with (real_data / "incartdb" / "incartdb_demographics.csv").open() as file:
        rows = {row["pid"]: row for row in csv.DictReader(file)}
    sexes = Counter(row["gender"] for row in rows.values())
    ages = [int(row["age"]) for row in rows.values()]
    assert len(rows) == paper.patients and (min(ages), max(ages)) == paper.ages
    assert (sexes["M"], sexes["F"]) == (18, 14) != (paper.men, paper.women)
    assert "18 and 14" in paper.remark and "17 M and 15 F" in paper.remark


def test_incarts_records_have_the_patients_of_its_map(real_data: Path, tmp_path: Path) -> None:
    with (real_data / "incartdb" / "records_partial.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:  # the headers as the release writes them
        comments = f"#<age>: {row['age']} <sex>: {row['sex']} <diagnoses> Acute MI"
        (tmp_path / f"{row['record']}.hea").write_text(
            f"{row['record']} 1 257 462600\n{row['record']}.dat 16 306 16 0 0 0 0 II\n{comments}\n"
            f"# patient {row['patient']}\n")
    (tmp_path / "RECORDS").write_text("\n".join(row["record"] for row in rows))
    of = hospital("incartdb", tmp_path, tmp_path)
    assert patient_of(of, list_records(of)) == {row["record"]: row["patient"] for row in rows}
    assert people(of) == {row["patient"]: ("MF".index(row["sex"]), float(row["age"]))
                          for row in rows}


def test_what_the_papers_windows_leave_for_shdb_af(real_data: Path) -> None:
    """One Holter of a little under 24 h for each of 100 patients, and none left out."""
    incart = 75 * (462_600 // (8 * 257))
    rest = PAPER_WINDOWS - 48 * (650_000 // (8 * 360)) - 66_351 - incart
    assert 23 < rest * 8 / 3600 / 100 < 24


def shdb(folder: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Records with their subject and the rhythm they are annotated with."""
    (folder / "RECORDS.txt").write_text("".join(f"{record}\n" for record, _, _ in rows))
    (folder / "AdditionalData.csv").write_text("Data_ID,Subject_ID,Age\n" + "".join(
        f"{int(record)},{subject},70\n" for record, subject, _ in rows))
    for record, _, note in rows:
        if note:
            wfdb.wrann(record, "atr", np.array([10]), ['"'], aux_note=[note],
                       write_dir=str(folder))
    return folder


def test_shdb_afs_selection(tmp_path: Path) -> None:
    folder = shdb(tmp_path, [
        ("001", "A", "(N"), ("002", "A", "(AFIB"),  # the annotated Holter of a subject
        ("003", "B", "(NOD"), ("004", "B", "(AFIB"),  # the first of two
        ("005", "C", "(AFIB"), ("020", "D", "(AFIB"),  # one recording under two names
        ("021", "E", ""), ("022", "E", ""),  # without any annotation
    ])  # fmt: skip
    assert select(folder) == ["002", "003", "005", "021"]


def test_shdb_af_has_a_hundred_patients_annotated_ones_first(tmp_path: Path) -> None:
    rows = [(f"{i:03d}", f"s{i}", "(AFIB" if i % 5 else "(N") for i in range(1, 121) if i != 20]
    chosen = select(shdb(tmp_path, rows))
    annotated = [record for record, _, note in rows if note == "(AFIB"]
    assert len(chosen) == 100 and set(annotated) < set(chosen) and chosen == sorted(chosen)
    assert [r for r in chosen if r not in annotated] == ["005", "010", "015", "025"]


def test_shdb_af_without_subjects_is_refused(tmp_path: Path) -> None:
    shdb(tmp_path, [("001", "", "(AFIB")])
    with pytest.raises(InputError, match=r"AdditionalData\.csv has no Subject_ID for record '001'"):
        select(tmp_path)
    (tmp_path / "RECORDS.txt").unlink()
    with pytest.raises(InputError, match=r"RECORDS\.txt'; it cannot be read"):
        select(tmp_path)
