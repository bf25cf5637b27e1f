"""Who retrains finds a planted marker, and nothing where nothing is left."""

from dataclasses import replace

import numpy as np
import pytest

from server.attacks import retraining
from server.attacks.case import classified
from server.attacks.retraining import attack, latest, mixture
from tests.server.attacks.conftest import made, marked, noise


def test_the_latest_share_of_each_patient():
    bundles = made()
    train = bundles.rows("train")
    last = latest(bundles, train, 0.25)
    for patient in range(4):
        own = train[bundles.patient[train] == patient]
        assert np.array_equal(np.sort(last[bundles.patient[last] == patient]), own[-7:])
    assert len(latest(bundles, train, 1.0)) == len(train)


def test_a_mixture_has_its_windows_and_their_labels():
    bundles = made(noise)
    known, windows = mixture(bundles, np.array([0, 1]), np.array([5, 6]))
    assert np.array_equal(windows[:2], bundles.clean[:2])
    assert np.array_equal(windows[2:], bundles.released[5:7])
    assert known.patient.tolist() == [0, 1, 1, 2] and len(known.rows("train")) == 4


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(retraining, "SHARES", (50, 100))
    monkeypatch.setattr(retraining, "COLLECTED", (1, 20))
    monkeypatch.setattr(retraining, "ARCHITECTURES", ("resnet1d",))


def test_a_planted_marker_is_found_by_who_retrains(case, short):
    case = replace(case, bundles=made(marked),
                   settings=replace(case.settings, audit=replace(case.settings.audit, steps=300)))
    assert classified(case.bundles, case.attacker, case.bundles.released)["reid"].value < 0.6
    found = attack(case)
    assert found["mixes"]["100"]["resnet1d"]["disjoint"]["reid"].value > 0.95
    assert set(found["mixes"]["50"]["resnet1d"]) == {"disjoint", "pairs"}
    assert found["collected"]["20"]["reid"].value > 0.9
    assert found["collected"]["20"]["reid"].value >= found["collected"]["1"]["reid"].value


def test_where_nothing_is_left_nobody_is_named(case, short):
    found = attack(replace(case, bundles=made(noise)))
    reid = found["mixes"]["100"]["resnet1d"]["disjoint"]["reid"]
    assert reid.value < 0.45


def test_windows_that_were_not_released_take_no_part(case, short):
    bundles = made()
    hidden = bundles.released.copy()
    hidden[::3] = np.nan
    case = replace(case, bundles=replace(bundles, released=hidden))
    found = attack(case)["mixes"]["100"]["resnet1d"]["disjoint"]["reid"]
    assert found.n == len(case.bundles.released_rows("test")) < len(bundles.rows("test"))
    assert found.value > 0.9
