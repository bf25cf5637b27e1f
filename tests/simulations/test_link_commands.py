"""`fedrean link` from names to a hospital whose dropped patients take no part."""

import json
import shutil
import stat

import pytest
import yaml
from typer.testing import CliRunner

import fedrean
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import WindowSettings, prepare
from common.errors import InputError

PEOPLE = {"north": "person,first,last,born,gender,zip\n100,Ann,O'Neill,1990-05-09,F,32801\n"
                   "101,José,García,1950-01-02,M,27514\n101,Jose,Garcia,1950-01-02,m,27514-0001\n"
                   "103,Bo,Smith,,M,\n",
          "south": "person,first,last,born\n7,ann,Oneill,1990-05-09\n8,Zoe,Zander,2001-01-01\n"}


def run(*words):
    return CliRunner().invoke(fedrean.app, ["link", *map(str, words)])


def done(*words):
    result = run(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def refused(*words):
    result = run(*words)
    assert isinstance(result.exception, InputError)
    return str(result.exception)


@pytest.fixture
def linked(tmp_path):
    """Two hospitals' token files and handles."""
    done("key", tmp_path / "key")
    for site, text in PEOPLE.items():
        (tmp_path / f"{site}.people").write_text(text)
        tokenized(tmp_path, site)
    return tmp_path


def tokenized(folder, site, **changed):
    words = {"key": folder / "key", "study": "s1", "site": site, "out": folder / f"{site}.tokens",
             "handles": folder / f"{site}.handles"} | changed
    return run("tokenize", folder / f"{site}.people",
               *(word for name, value in words.items() for word in (f"--{name}", value)))


def test_a_key_is_its_owners_and_never_overwritten(linked):
    assert stat.S_IMODE((linked / "key").stat().st_mode) == 0o600
    assert "File exists" in refused("key", linked / "key")


def test_tokens_hold_no_name_and_no_number(linked):
    text = (linked / "north.tokens").read_text()
    header, columns, *rows = text.splitlines()
    assert json.loads(header[1:])["token"] == "P" and columns == "handle,token"
    assert len(rows) == 2  # the person without a birthday has none, the one of two lines has one
    assert not any(word in text for word in ("Ann", "ONEILL", "1990", ",100", "101"))
    assert "1 patients lack an attribute, 0 share" in tokenized(linked, "north").output
    assert (linked / "north.tokens").read_text() != text  # handles are drawn anew
    assert {row.split(",")[1] for row in (linked / "north.tokens").read_text().splitlines()[2:]} \
        == {row.split(",")[1] for row in rows}


def test_a_person_of_two_hospitals_is_dropped_at_one(linked):
    said = done("match", linked / "north.tokens", linked / "south.tokens", "--out", linked / "out")
    assert "persons at 1, 2, ... hospitals: 2, 1; kept at 1 at most" in said
    left = {}
    for site in PEOPLE:
        assert "privacy.sites=1" in done(
            "apply", linked / "out" / f"{site}.csv", "--handles", linked / f"{site}.handles",
            "--key", linked / "key", "--site", site, "--out", linked / f"{site}.left")
        left[site] = (linked / f"{site}.left").read_text().split()
    assert sorted(left["north"] + left["south"]) in (["100"], ["7"])


def test_nobody_is_dropped_where_two_hospitals_are_allowed(linked):
    done("match", linked / "north.tokens", linked / "south.tokens", "--out", linked, "--sites", 2)
    assert all(line.endswith(",1") for site in PEOPLE
               for line in (linked / f"{site}.csv").read_text().splitlines()[2:])


def test_dropped_patients_take_no_part(consortium, tmp_path):
    folder = shutil.copytree(consortium / "mitdb", tmp_path / "mitdb")
    settings = WindowSettings(50, 8.0, 0.0, 0)
    before = prepare(load_hospital(folder / "hospital.yaml"), tmp_path / "a", settings)
    gone = before.info["patients"][0]
    (folder / "left").write_text(f"{gone}\n")
    tree = yaml.safe_load((folder / "hospital.yaml").read_text()) | {"leave_out": "left"}
    (folder / "hospital.yaml").write_text(yaml.safe_dump(tree))
    after = prepare(load_hospital(folder / "hospital.yaml"), tmp_path / "a", settings)
    assert after.info["patients"] == before.info["patients"][1:]
    assert len(after.index) < len(before.index) and after.path != before.path
    (folder / "left").write_text("nobody\n")
    with pytest.raises(InputError, match="names 'nobody'; allowed are patients of"):
        prepare(load_hospital(folder / "hospital.yaml"), tmp_path / "a", settings)


@pytest.mark.parametrize(("text", "line"), [
    ("first,last\nA,B\n", "columns first, last; allowed: person"),
    ("person,name\n1,A\n", "allowed: person, and any of first"),
    ("person,first\n", "has 0 patients"), ("person,first\n,Ann\n", "line 2: it has no person"),
    ("person,first\n1,A,B\n", "more values than columns"),
    ("person,first\n1,A\n1,B\n", "line 3: another line of the same person says otherwise"),
    ("person,born\n1,1.2.1990\n", "line 2: a date of birth is no date"),
    ("person,first\n1,Ἀχιλλεύς\n", "not Latin .greek"),
])
def test_people_who_cannot_be_read_are_refused_and_nothing_is_written(linked, text, line):
    (linked / "bad.people").write_text(text)
    result = tokenized(linked, "bad")
    assert isinstance(result.exception, InputError)
    import re
    assert re.search(line, str(result.exception)), result.exception
    assert not (linked / "bad.tokens").exists() and not (linked / "bad.handles").exists()


def test_an_answer_to_another_site_key_or_list_is_refused(linked):
    done("match", linked / "north.tokens", linked / "south.tokens", "--out", linked)
    done("key", linked / "other")
    own = ["--handles", linked / "north.handles", "--out", linked / "left"]
    for changed, line in (
            (["north.csv", "--site", "south", "--key", linked / "key"], "site 'north'; allowed: "),
            (["north.csv", "--site", "north", "--key", linked / "other"], "has key "),
            (["south.csv", "--site", "south", "--key", linked / "key"], "or others; allowed: the")):
        assert line in refused("apply", linked / changed[0], *changed[1:], *own)
    assert not (linked / "left").exists()


def test_mixed_keys_are_refused(linked):
    done("key", linked / "other")
    tokenized(linked, "south", key=linked / "other")
    assert "all sites need the same" in refused(
        "match", linked / "north.tokens", linked / "south.tokens", "--out", linked / "out")
    assert not (linked / "out").exists()
