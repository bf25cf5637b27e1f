"""Membership attacks against cases whose answer is known."""

import math

import numpy as np
import pytest

from common.audits.membership import (
    by_patient,
    enrolment_loss,
    levelled,
    lira,
    logit,
    loss_gap,
    rmia,
)
from common.audits.rates import rates
from common.errors import InputError

PATIENT = np.repeat(np.arange(20), 10)
MEMBER = PATIENT < 10


def losses(models, gap, seed=0):
    """Losses of a target and its references [models, n]: patients differ in difficulty by far more
    than being seen lowers the loss; each reference saw a half."""
    generator = np.random.default_rng(seed)
    hard = generator.gamma(2, 1, 20)[PATIENT]
    seen = np.array([generator.permutation(20) < 10 for _ in range(models // 2)])
    seen = np.stack([seen, ~seen], 1).reshape(models, 20)[:, PATIENT]
    noise = generator.gamma(2, 0.05, (1 + models, 200))
    return (hard + noise[0] + gap * ~MEMBER, hard + noise[1:] + gap * ~seen, seen)


def test_the_loss_threshold_of_a_case_by_hand():
    """Mean losses .2 and .6 of members, .4 and .8 of the others: 3 of 4 pairs are told right."""
    loss = np.array([0.1, 0.3, 0.6, 0.4, 0.7, 0.9])
    patient, member = np.array([0, 0, 1, 2, 3, 3]), np.array([1, 1, 1, 0, 0, 0], dtype=bool)
    found = loss_gap(loss, member, patient)
    assert found.value == 0.75 and found.n == 4
    score, inside, names = by_patient(-loss, member, patient)
    assert score == pytest.approx([-0.2, -0.6, -0.4, -0.8])
    assert inside.tolist() == [True, True, False, False] and names.tolist() == [0, 1, 2, 3]
    assert rates(score, inside, names)["at"][0]["tpr"].value == 1  # at 1 of 2 non-members


def test_membership_without_windows_or_without_non_members_is_unknown():
    nothing = np.zeros(0)
    assert math.isnan(loss_gap(nothing, nothing.astype(bool), nothing.astype(int)).value)
    assert math.isnan(loss_gap(np.ones(2), np.ones(2, bool), np.arange(2)).value)
    one = loss_gap(np.array([1.0, 2.0, 3.0]), np.array([True, True, False]), np.arange(3))
    assert one.value == 1 and math.isnan(one.low)


def test_membership_finds_a_gap_and_finds_none_where_there_is_none():
    noise = np.random.default_rng(0).normal(size=200)
    assert loss_gap(noise + 5 * ~MEMBER, MEMBER, PATIENT).value > 0.95
    none = loss_gap(noise, MEMBER, PATIENT)
    assert none.low < 0.5 < none.high
    assert none.n == 20


def test_rmia_of_a_case_by_hand():
    """Ratios to the mean likelihood of who did not see: 2, 1, .5 and .25; the first two are one
    patient's, who is not part of his own population."""
    target = np.log([0.8, 0.3, 0.2, 0.1])
    references = np.log([[0.4, 0.3, 0.9, 0.4], [0.4, 0.3, 0.4, 0.9], [0.9, 0.9, 0.4, 0.4]])
    seen = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]], dtype=bool)
    patient = np.array([0, 0, 1, 2])
    assert rmia(target, references, seen, patient).tolist() == [1, 1, 1 / 3, 0]
    assert rmia(target, references, seen, patient, gamma=3).tolist() == [1, 0.5, 0, 0]
    # a = 0: every likelihood counts as (p + 1) / 2, the ratios are 1.14, .46, .29 and .14
    assert rmia(target, references, seen, patient, gamma=1.8).tolist() == [1, 1, 1 / 3, 0]
    assert rmia(target, references, seen, patient, gamma=1.8, a=0.0).tolist() == [1, 0.5, 1 / 3, 0]


def test_lira_of_a_case_by_hand():
    """In: 1 and 3, out: -1 and 1, of both windows. Squares of 4 with 4 - 2 degrees of freedom on
    each side: the variance is 2, and the ratio t - 1."""
    references = np.array([[1.0, 3], [3, 1], [-1, 1], [1, -1]])
    seen = np.array([[1, 1], [1, 1], [0, 0], [0, 0]], dtype=bool)
    target = np.array([0.5, 2.0])
    assert lira(target, references, seen) == pytest.approx([-0.5, 1])
    # Nobody saw the second window: offline, squares of 2 + 8 with 6 - 2 degrees of freedom.
    seen[:, 1] = False
    assert lira(target, references, seen) == pytest.approx(np.array([0.5, 2 - 1]) / math.sqrt(2.5))


def test_logit_is_of_the_probability_and_stays_finite():
    p = np.array([0.1, 0.5, 0.999])
    assert logit(-np.log(p)) == pytest.approx(np.log(p / (1 - p)))
    assert np.isfinite(logit(np.array([0.0, 800.0]))).all()


def test_a_released_model_that_is_surer_of_everything_is_levelled_with_its_references():
    target, references, seen = losses(16, gap=0.6)
    surer, shadows = logit(target) + 3, logit(references)
    assert levelled(surer) == pytest.approx(levelled(logit(target)))
    assert levelled(shadows).mean(axis=1) == pytest.approx(np.zeros(16), abs=1e-9)
    found = rates(*by_patient(lira(levelled(surer), levelled(shadows), seen), MEMBER, PATIENT))
    assert found["auc"].value > 0.95


@pytest.mark.parametrize("name", ["rmia", "lira"])
def test_references_find_what_a_memorising_model_hides_in_difficulty(name):
    target, references, seen = losses(16, gap=0.6)

    def attack(t):
        return (rmia(-t, -references, seen, PATIENT) if name == "rmia"
                else lira(logit(t), logit(references), seen))

    assert loss_gap(target, MEMBER, PATIENT).value < 0.8
    found = rates(*by_patient(attack(target), MEMBER, PATIENT))
    assert found["auc"].value > 0.98 and found["at"][0]["tpr"].value > 0.9
    hard = references.mean(0)  # of no patient in particular, as a model that saw nobody or all
    idle = rates(*by_patient(attack(hard + 0.1 * np.random.default_rng(1).normal(size=200)),
                             MEMBER, PATIENT))["auc"]
    assert idle.low < 0.5 < idle.high


def test_a_window_that_all_references_saw_is_refused():
    target, references, seen = losses(2, gap=1)
    for attack in (lambda s: lira(target, references, s),
                   lambda s: rmia(target, references, s, PATIENT)):
        with pytest.raises(InputError, match="200 windows were seen by all 2 references"):
            attack(np.ones_like(seen))
        with pytest.raises(InputError, match="allowed: .models, 200. both"):
            attack(seen[:1])
    with pytest.raises(InputError, match="gamma is 0"):
        rmia(target, references, seen, PATIENT, gamma=0)
    with pytest.raises(InputError, match="a is 2"):
        rmia(target, references, seen, PATIENT, a=2)


def test_enrolment_loss_knows_who_is_near_the_own_other_half():
    generator = np.random.default_rng(0)
    patient = np.repeat(np.arange(6), 20)
    late = np.tile(np.arange(20) >= 10, 6)
    centre = generator.normal(size=(6, 32))[patient]
    noise = generator.normal(size=(120, 32))
    tight = enrolment_loss((centre + 0.1 * noise).astype(np.float32), patient, late)
    loose = enrolment_loss(noise.astype(np.float32), patient, late)
    assert tight.max() < 0.1 and loose.mean() > 1
    late[patient == 5] = False  # one half alone
    some = enrolment_loss((centre + 0.1 * noise).astype(np.float32), patient, late)
    assert np.isnan(some[patient == 5]).all() and np.isfinite(some[patient < 5]).all()


def test_enrolment_loss_of_a_case_by_hand():
    """Two patients at right angles: cosines 1 and 0, a loss of log(1 + e^-10)."""
    embedding = np.array([[1, 0], [2, 0], [0, 1], [0, 3]], dtype=np.float32)
    found = enrolment_loss(embedding, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1], dtype=bool))
    assert found == pytest.approx(np.full(4, np.log1p(np.exp(-10))), rel=1e-3)
