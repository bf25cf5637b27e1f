"""Was this patient's data in the training set? Attacks as functions of losses.

`loss_gap` needs nothing but the released model; `rmia` and `lira` compare it with reference models
whose members are known. Members and non-members are patients of the same hospital, so that
hospital-specific signals (device, filter, sampling) cannot be mistaken for membership.

Written here, since the libraries weigh more than they carry (looked at in 2026): PrivacyGuard needs
transformers and ipywidgets, jax-privacy needs JAX and audits canaries, ART has neither attack.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from common.audits.rates import auc
from common.errors import InputError
from common.results import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TEMPERATURE = 0.1  # of the softmax over cosine similarities in `enrolment_loss`
_SURE = 1e-12  # a loss below it is no surer: the logit of a probability of 1 is infinite


def loss_gap(loss: Floats, member: Bools, patient: Ints) -> Estimate:
    """AUC of telling members from non-members by a patient's mean loss.

    Args:
        loss: loss of each window under the released model, [n].
        member: whether its patient was in training, [n].
        patient: [n].

    Returns:
        n counts patients; the interval resamples members and non-members apart.

    Source: Yeom et al., "Privacy risk in machine learning" (2018).
    """
    return auc(*by_patient(-loss, member, patient))


def by_patient(score: Floats, member: Bools, patient: Ints) -> tuple[Floats, Bools, Ints]:
    """Mean score, membership and name of each patient, [patients].

    The mean, not the sum, of log-likelihood ratios: windows of a patient are not independent, and
    the sum would only favour who has more of them.
    """
    names, first, inverse = np.unique(patient, return_index=True, return_inverse=True)
    return np.bincount(inverse, score) / np.bincount(inverse), member[first], names


def rmia(target: Floats, references: Floats, seen: Bools, patient: Ints, gamma: float = 1.0,
         a: float = 1.0) -> Floats:
    """Robust membership inference, the offline variant: a score in [0, 1] of each window, [n].

    A window's likelihood under the released model, relative to its mean under the references that
    did not see the patient, is compared with the same ratio of the population: the score is the
    share of other patients' windows that it exceeds by `gamma`. Where the threshold is swept, as
    here, gamma moves no rank but makes ties: 1 is best. The paper's estimate of the likelihood of
    a random model is ((1 + a) p + 1 - a) / 2; a = 1 trusts the references that did not see.

    Args:
        target: log-likelihood under the released model, [n]; minus the loss.
        references: the same under each reference, [models, n].
        seen: whether a reference saw the window's patient, [models, n].
        patient: [n]; all of one hospital, so that the population is the hospital's.
        gamma: how much larger the ratio must be.
        a: of the offline correction, in [0, 1].

    Raises:
        InputError: all references saw a window, or a parameter is out of its range.

    Source: Zarifzadeh et al., "Low-cost high-power membership inference attacks" (2024), eq. 2-4.
    """
    if not gamma > 0:
        raise InputError(f"gamma is {gamma}; allowed: > 0")
    if not 0 <= a <= 1:
        raise InputError(f"a is {a}; allowed: 0 to 1")
    _check(target, references, seen)
    out = logsumexp(references, axis=0, b=~seen) - np.log(np.sum(~seen, axis=0))
    usual = out if a == 1 else np.logaddexp(np.log((1 + a) / 2) + out, np.log((1 - a) / 2))
    ratio = target - usual
    bound = ratio - np.log(gamma)

    def below(population: Floats, bounds: Floats) -> Ints:
        return np.searchsorted(np.sort(population), bounds, side="right")

    won, others = below(ratio, bound), np.full(len(ratio), len(ratio))
    for name in np.unique(patient):
        own = patient == name
        won[own] -= below(ratio[own], bound[own])
        others[own] -= np.sum(own)
    return np.asarray(np.where(others > 0, won / np.maximum(others, 1), np.nan))


def lira(target: Floats, references: Floats, seen: Bools) -> Floats:
    """Likelihood ratio attack: log N(t; in) - log N(t; out) of each window, [n].

    Online where each window was seen by some references and not by others. Where one side is
    missing for any window, offline: how surely the released model exceeds those that did not see.
    A few references do not tell a window's variance, so all windows share one of each side, as the
    paper advises below 64 models.

    Args:
        target: a roughly normal statistic under the released model, [n]: `logit` of the loss.
        references: the same under each reference, [models, n].
        seen: whether a reference saw the window's patient, [models, n].

    Raises:
        InputError: all references saw a window.

    Source: Carlini et al., "Membership inference attacks from first principles" (2022),
    algorithm 1.
    """
    _check(target, references, seen)
    out = _normal(references, ~seen)
    if not seen.any(axis=0).all():
        return np.asarray((target - out[0]) / out[1])
    inside = _normal(references, seen)
    return _log_density(target, *inside) - _log_density(target, *out)


def _log_density(x: Floats, mean: Floats, deviation: float) -> Floats:
    """Of a normal, but for a constant."""
    return np.asarray(-(((x - mean) / deviation) ** 2) / 2 - np.log(deviation))


def _check(target: Floats, references: Floats, seen: Bools) -> None:
    if references.shape != seen.shape or references.shape[1:] != target.shape:
        raise InputError(f"references is {references.shape} and seen {seen.shape}; allowed: "
                         f"(models, {len(target)}) both")
    short = int(np.sum(seen.all(axis=0)))
    if short:
        raise InputError(f"{short} windows were seen by all {len(seen)} references; allowed: 0")


def _normal(values: Floats, chosen: Bools) -> tuple[Floats, float]:
    """Mean of the chosen models for each window, [n], and the deviation that all windows share."""
    count = chosen.sum(axis=0)
    mean = np.where(chosen, values, 0).sum(axis=0) / count
    spread = np.where(chosen, values - mean, 0)
    freedom = max(1, int(chosen.sum() - len(mean)))
    return mean, float(np.sqrt(np.sum(spread**2) / freedom) + _SURE)


def logit(loss: Floats) -> Floats:
    """log p / (1 - p) of the probability exp(-loss), which LiRA takes for normal."""
    sure = np.maximum(loss, _SURE)
    return np.asarray(-sure - np.log(-np.expm1(-sure)))


def levelled(statistic: Floats) -> Floats:
    """The statistic less its mean over the windows of a model, [..., n].

    The released model learnt from more patients than a reference does and is surer of every window;
    `lira` would take that for the window. It needs no label, and where shadows take the released
    model's place, whose members are known, the attack is stronger with it.
    """
    return np.asarray(statistic - statistic.mean(axis=-1, keepdims=True))


def enrolment_loss(embedding: NDArray[np.float32], patient: Ints, late: Bools) -> Floats:
    """A loss for people who have no class: is a window near its own patient's other half?

    Patients are enrolled by the mean direction of their early and of their late windows. The loss
    is the cross-entropy of the own patient in a softmax over the cosine similarities with the other
    half's means. NaN for patients with one half alone.

    Args:
        embedding: [n, d] by the model's backbone.
        patient: [n], members and non-members alike.
        late: whether a window is of the later half of its patient's, [n].
    """
    unit = embedding / (np.linalg.norm(embedding, axis=1, keepdims=True) + 1e-12)
    both = np.intersect1d(patient[late], patient[~late])
    loss = np.full(len(patient), np.nan)
    for half in (True, False):
        means = np.array([unit[(patient == name) & (late != half)].mean(0) for name in both])
        rows = np.flatnonzero(np.isin(patient, both) & (late == half))
        if not len(rows):
            continue
        means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-12
        score = unit[rows].astype(np.float64) @ means.T / TEMPERATURE  # (rows, patients)
        own = np.searchsorted(both, patient[rows])
        loss[rows] = logsumexp(score, axis=1) - score[np.arange(len(rows)), own]
    return loss
