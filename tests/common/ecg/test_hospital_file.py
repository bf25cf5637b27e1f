"""Hospital files, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.ecg.hospital_file import load_hospital
from common.errors import InputError
from tests.common.ecg.made import write_hospital


def test_the_synthetic_hospital(consortium: Path) -> None:
    hospital = load_hospital(consortium / "mitdb" / "hospital.yaml")
    assert hospital.path == (consortium / "mitdb").resolve()
    assert hospital.leads == (("MLII", "V5"),)


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
        load_hospital(write_hospital(tmp_path, **changes))
    assert words in str(caught.value)


def test_files_that_are_no_hospital(tmp_path: Path) -> None:
    for content in (None, b"[", b"- a\n", b"\xff\xfe\x00"):
        file = tmp_path / "h.yaml"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InputError, match=r"h\.yaml"):
            load_hospital(file)
