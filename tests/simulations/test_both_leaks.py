"""Token and waveform together: what guesses add, what recordings add, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fedrean
from common.errors import InputError
from common.linkage.fingerprint_attack import attack
from common.linkage.keys import group_mask, keys
from common.protocol import AGE_BANDS
from common.results import to_plain
from server.attacks import latent
from server.attacks.latent import Evidence, Told
from simulations import both_leaks
from simulations.both_leaks import ROWS, measure
from simulations.population import Population

N = 200_000


def patients(right=1.0, named=0.25, seed=0):
    """Forty patients, four of each sex and band; their waveforms tell a share of them."""
    sex, age = (part.ravel() for part in np.meshgrid(range(2), range(len(AGE_BANDS))))
    sex, age = np.tile(sex, 4), np.tile(age, 4)
    generator = np.random.default_rng(seed)

    def scores(label, classes):
        shown = np.where(generator.random(len(label)) < right, label, generator.integers(
            0, classes, len(label)))
        return np.log(np.where(np.arange(classes) == shown[:, None], 0.9, 0.1))

    told = Told(np.arange(len(sex)) < named * len(sex), scores(sex, 2), scores(age, 5))
    return Evidence(sex, age, len(sex), {"clean": told, "released": told})


def found(evidence, tokens=("B", "C"), n=N):
    return to_plain(measure(evidence, Population(n), tokens, lambda what: None))


def values(tree, token, which="right"):
    return {row: tree["tokens"][token][row][which]["value"] for row in ROWS}


@pytest.fixture(scope="module")
def perfect():
    return found(patients())


def test_guesses_that_are_right_are_as_good_as_statements(perfect):
    for token in "BC":
        right, wrong = values(perfect, token), values(perfect, token, "wrong")
        assert right["clean"] == right["released"] >= right["bands"]
        assert right["years"] > right["zip3"] and wrong["released"] == wrong["zip3"] == 0
    assert perfect["guesses"]["released"]["sex"]["value"] == 1
    assert perfect["left_out"] == 0 and perfect["patients"] == 40


def test_years_are_what_the_plain_attack_finds(perfect):
    people = Population(N).people()
    plain = attack(keys("C", people), group_mask("C")).reidentified
    assert values(perfect, "C")["years"] == pytest.approx(plain, rel=0.2)  # a mean of patients


def test_both_tell_more_than_either(perfect):
    right = values(perfect, "C")
    assert right["waveform"] == 0.25
    alone = 1 - (1 - 0.25) * (1 - right["released"])
    assert right["both"] > alone + 0.002  # whose token is known gives away who shares it


def test_guesses_by_chance_add_little_and_name_others():
    some = found(patients(right=0.0))
    right, wrong = values(some, "C"), values(some, "C", "wrong")
    assert right["zip3"] <= right["released"] < 0.1 * right["bands"] and wrong["released"] > 0


@pytest.mark.parametrize("same", ["_BORN", "_GENDER"])
def test_people_of_one_token_answer_together(same, monkeypatch):
    guesses = patients(right=0.6)
    together = values(found(guesses, ("B",)), "B")["released"]
    monkeypatch.setattr(both_leaks, same, "")
    assert values(found(guesses, ("B",)), "B")["released"] < together


def test_people_like_no_patient_are_left_out():
    evidence = patients()
    young = evidence.age == 0

    def some(told):
        return Told(told.identity[young], told.sex[young], told.age[young])

    tree = found(replace(evidence, sex=evidence.sex[young], age=evidence.age[young],
                         told={name: some(of) for name, of in evidence.told.items()}), ("B",))
    assert 0.5 * N < tree["left_out"] < 0.8 * N and tree["people"] + tree["left_out"] == N


def test_the_command_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(latent, "evidence", lambda case: patients())
    monkeypatch.setattr("server.bundles.load_bundles", lambda folder: None)
    monkeypatch.setattr("server.run_directory.open_run", lambda folder: None)
    result = CliRunner().invoke(fedrean.app, ["link", "leaks", str(tmp_path), "--population",
                                              "20000", "--tokens", "B,P", "--json"])
    assert result.exit_code == 0, result.output
    tree = json.loads(result.stdout)
    assert tree == json.loads((tmp_path / "leaks.json").read_text())
    page = (tmp_path / "leaks.html").read_text()
    assert page.count("synthetic people, not a voter registry") == 3  # the head, and each figure
    assert all(text in page for text in ROWS.values())


def test_no_finished_run_is_refused(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    for folder, line in ((tmp_path / "none", "no readable config.yaml"),
                         (tmp_path, "holds 0 audit bundles")):
        result = CliRunner().invoke(fedrean.app, ["link", "leaks", str(folder)])
        assert isinstance(result.exception, InputError) and line in str(result.exception)


@pytest.mark.parametrize("tokens", [(), ("Z",)])
def test_unknown_tokens_are_refused(tokens):
    with pytest.raises(InputError, match="allowed: some of A,B,C"):
        found(patients(), tokens, 1000)
