"""Recall and precision of tokens, on people whose records disagree in known ways."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import fedrean
from common.errors import InputError
from simulations.link_recall import disagree, draw, measure


def test_records_that_agree_are_all_found():
    found = measure(3000, 0.3, 0.0, 0)
    assert found["both"] == 900
    for leaves in found["tokens"].values():
        assert leaves["recall"]["value"] == 1.0 and leaves["recall"]["n"] == 900
    assert found["tokens"]["P"]["precision"]["value"] > 0.99
    assert found["tokens"]["C"]["precision"]["value"] < found["tokens"]["A"]["precision"]["value"]


def test_each_token_misses_what_it_is_made_of():
    tokens = measure(3000, 0.5, 0.1, 0)["tokens"]
    found = {kind: leaves["recall"]["value"] for kind, leaves in tokens.items()}
    # A move costs D, Soundex forgives some typing errors, an initial forgives nearly all.
    assert found["D"] < found["P"] < found["E"] and found["P"] < found["F"] < 1
    assert all(leaves["recall"]["low"] < leaves["recall"]["value"] < leaves["recall"]["high"]
               for leaves in tokens.values())


def test_what_another_hospital_wrote_is_the_same_person_with_errors():
    generator = np.random.default_rng(0)
    people = draw(50, generator)
    assert [disagree(p, 0.0, generator) for p in people] == people
    assert all(disagree(p, 1.0, generator) != p and not disagree(p, 1.0, generator).born
               for p in people)


@pytest.mark.parametrize("numbers", [(0, 0.1, 0.1), (10, 1.5, 0.1), (10, 0.1, -1.0)])
def test_numbers_out_of_range_are_refused(numbers):
    with pytest.raises(InputError, match="allowed"):
        measure(*numbers, 0)


def test_the_command_prints_json():
    result = CliRunner().invoke(fedrean.app, ["link", "recall", "--people", "300", "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)["people"] == 300
