"""What `data describe` says of a hospital."""

from __future__ import annotations

from pathlib import Path

from simulations.describe import describe_hospital, describe_rows


def test_facts_add_up(consortium: Path, tmp_path: Path) -> None:
    facts = describe_hospital(consortium / "mitdb" / "hospital.yaml", tmp_path)
    assert facts["patients"] == 3 and facts["records"] == 4 and facts["leads"] == ["MLII|V5"]
    assert sum(facts["sex"].values()) == sum(facts["age"].values()) == 3
    assert facts["age"]["unknown"] == 0 and set(facts["sex"]) == {"M", "F", "unknown"}
    for mode in ("windows_strict", "windows_paper"):
        assert sum(facts[mode].values()) == facts["windows"]
    assert facts["windows_paper"]["undecided"] == 0 and facts["windows_paper"]["AFIB"] > 0
    assert facts["hours"] == round(facts["windows"] * 8 / 3600, 3)


def test_rows_have_one_line_a_class_and_a_record() -> None:
    facts = {
        "name": "a", "patients": 2, "sex": {"M": 1, "F": 1}, "leads": ["I", "II"], "hours": 1.25,
        "windows_skipped": {"flat": 3, "missing": 4},
        "records_left_out": {"r1": "record r1: file 'r1.dat' is missing"},
    }  # fmt: skip
    assert list(describe_rows(facts)) == [
        ("patients", "2"), ("sex, patients", "2"), ("  M", "1"), ("  F", "1"), ("leads", "I; II"),
        ("hours", "1.25"), ("windows skipped", "7"), ("  flat", "3"), ("  missing", "4"),
        ("records left out", "1"), ("  r1", "file 'r1.dat' is missing"),
    ]  # fmt: skip
