"""`fedrean link risk` as a user meets it: figures, the gate, files of one's own."""

import json

import pytest
from typer.testing import CliRunner

import fedrean
from common.errors import InputError
from simulations.token_risk import batches, of_file

SMALL = ["link", "risk", "--population", "200000", "--seeds", "2", "--tokens", "B,C", "--json"]


def told(*words):
    result = CliRunner().invoke(fedrean.app, list(words))
    return result.exit_code, result.stdout


def test_shares_carry_intervals_over_populations():
    code, out = told(*SMALL)
    found = json.loads(out[out.index("{"):])
    assert code == 0 and list(found["tokens"]) == ["B", "C"] and "synthetic" in found["of"]
    leaf = found["tokens"]["C"]["reidentified"]
    assert leaf["low"] < leaf["value"] < leaf["high"] and leaf["n"] == 200_000
    assert 0.02 < leaf["value"] < 0.04
    for name in ("without_year_of_birth", "without_demographics", "one_value_each"):
        assert found["tokens"]["C"][name]["value"] < 0.01 * leaf["value"]


def test_without_the_year_the_attack_is_the_one_that_the_year_is_compared_with():
    whole, bare = (json.loads(out[out.index("{"):]) for out in (
        told(*SMALL)[1], told(*SMALL, "--no-year-of-birth")[1]))
    for token in "BC":
        assert (bare["tokens"][token]["reidentified"]
                == whole["tokens"][token]["without_year_of_birth"])
        assert "without_year_of_birth" not in bare["tokens"][token]


def test_precise_tokens_give_away_less():
    code, out = told("link", "risk", "--population", "400000", "--seeds", "1", "--tokens",
                     "B,D,P", "--json")
    found = {token: leaves["reidentified"]["value"]
             for token, leaves in json.loads(out[out.index("{"):])["tokens"].items()}
    assert found["B"] > 2 * found["P"] and found["D"] == 0


def test_tokens_of_large_populations_are_made_one_by_one():
    assert batches("ABC", 1000) == [["A", "B", "C"]]
    assert batches("ABC", 100_000_000) == [["A", "B"], ["C"]]
    assert batches("AB", 250_000_000) == [["A"], ["B"]]


def test_people_of_a_file_are_attacked_by_each_token(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("person,first,last,born,gender,zip\n"
                    "1,Ann,Lee,1950-01-01,F,10001\n2,Amy,Lee,1950-01-01,F,20001\n"
                    "3,Bob,Roe,1951-01-01,M,10001\n4,Bea,Roe,1950-01-01,F,20001\n"
                    "5,Cy,Poe,1950-01-01,F,10001\n6,Di,Doe,,F,10001\n")
    code, out = told("link", "risk", "--people", str(file), "--tokens", "B,D", "--json")
    found = json.loads(out)["tokens"]
    assert code == 0 and found["B"]["reidentified"]["n"] == 5  # one has no birthday
    # Ann and Amy share a token, and are told apart by the ZIP.
    assert found["B"]["reidentified"]["value"] == pytest.approx(4 / 5)
    assert found["B"]["non_unique"]["value"] == pytest.approx(2 / 5)
    assert found["D"]["non_unique"]["value"] == 0


def test_the_gate_fails_above_its_bound_alone():
    assert told(*SMALL, "--fail-above", "0.01")[0] == 1
    assert told(*SMALL, "--fail-above", "0.5")[0] == 0


def test_a_file_is_attacked_as_it_is(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("token,zip3,gender\nx,100,f\nx,200,f\ny,100,f\nz,200,f\nz,200,f\n,1,m\n")
    found = of_file(file)["tokens"]["file"]
    assert found["reidentified"]["value"] == pytest.approx(3 / 5)  # both x, and y; z are alike
    assert found["non_unique"]["value"] == pytest.approx(4 / 5)
    assert found["reidentified"]["low"] is None  # one population


def test_a_column_year_counts_unless_it_is_not_released(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("token,year\nx,1950\nx,1951\ny,1950\ny,1950\nz,1951\n")
    assert of_file(file)["tokens"]["file"]["reidentified"]["value"] == pytest.approx(3 / 5)
    assert of_file(file, year=False)["tokens"]["file"]["reidentified"]["value"] == pytest.approx(
        1 / 5)  # z, which alone is no pair; x and y are pairs of unknown people


@pytest.mark.parametrize(("text", "line"), [
    ("hash,zip3\na,1\n", "needed are rows and a column token"),
    ("token\n", "with 0 rows"), (None, "cannot be read as CSV")])
def test_a_file_that_is_none_is_refused(tmp_path, text, line):
    file = tmp_path / "t.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=line):
        of_file(file)


@pytest.mark.parametrize("words", [["--tokens", "Z"], ["--seeds", "0"], ["--where", "Ohio"]])
def test_what_there_is_not_is_refused(words):
    result = CliRunner().invoke(fedrean.app, ["link", "risk", "--population", "1000", *words])
    assert isinstance(result.exception, InputError) and "allowed" in str(result.exception)
