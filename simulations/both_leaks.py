"""Token and waveform together: how often a released patient is told by either, or by both.

Each of many synthetic people has the waveforms of a patient of the run, of the same sex and age
band. All of them are released with a token and a 3-digit ZIP. A patient's chance is the share of
the people with those waveforms who are identified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.demographics import age_band
from common.errors import InputError
from common.linkage.guessed import Claims, agreed, attack_guessed, passed_on
from common.linkage.keys import (
    GENDER_SHIFT,
    TOKENS,
    YEAR_SHIFT,
    People,
    demographics,
    group_mask,
    keys,
)
from common.linkage.two_tokens import numbered
from common.protocol import AGE_BANDS
from common.results import Estimate, mean_estimate
from server.attacks.latent import Evidence, Told
from simulations.population import Population
from simulations.token_risk import SYNTHETIC

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_AS_OF = 2022  # of the population table; people are 18 to 90 then
_BORN = "ABDEFP"  # tokens that hold the birthday, so that an age is that of the whole group
_GENDER = "AB"
# What stands beside the token and the 3-digit ZIP.
ROWS = {
    "zip3": "token and 3-digit ZIP",
    "clean": "these, and sex and age band guessed from clean waveforms",
    "released": "these, and sex and age band guessed from released waveforms",
    "bands": "these, and sex and age band as stated",
    "years": "these, and sex and year of birth as stated",
    "waveform": "released waveforms alone, with recordings of all patients",
    "both": "token, 3-digit ZIP, guesses, released waveforms and recordings",
}


def measure(evidence: Evidence, of: Population, tokens: Sequence[str],
            progress: Callable[[str], None]) -> dict[str, Any]:
    """Chances per token and row of `ROWS`, each {right, wrong}, with intervals over patients.

    Args:
        evidence: what the patients' waveforms tell.
        of: synthetic people; those of a sex and age band that no patient has are left out. Its
            seed also draws who has whose waveforms.
        tokens: of A to F and P.
        progress: told what is done next.

    Raises:
        InputError: an unknown token, or nobody is left.
    """
    if not tokens or not set(tokens) <= set(TOKENS):
        raise InputError(f"tokens is {','.join(tokens)!r}; allowed: some of {','.join(TOKENS)}")
    progress(f"drawing {of.n:,} synthetic people")
    people, who = _with_waveforms(of.people(), evidence, of.seed)
    if not len(who):
        raise InputError(f"population is {of.n}, of whom 0 have the sex and age band of a patient; "
                         "give a larger one")
    found = {}
    for token in tokens:
        progress(f"token {token}")
        found[token] = {row: {"right": _chance(claims.right, who),
                              "wrong": _chance(claims.wrong, who)}
                        for row, claims in _rows(token, people, who, evidence).items()}
    return {"of": SYNTHETIC, "people": len(who), "left_out": of.n - len(who), "seed": of.seed,
            "where": of.where, "patients": len(evidence.sex),
            "enrolled": evidence.enrolled,
            "guesses": {version: _guesses(evidence, told)
                        for version, told in evidence.told.items()},
            "tokens": found}


def _with_waveforms(people: People, evidence: Evidence, seed: int) -> tuple[People, Ints]:
    """People whose sex and age band a patient has, and whose waveforms each of them has."""
    cell = _sex(people) * len(AGE_BANDS) + _band(people)
    patients = evidence.sex * len(AGE_BANDS) + evidence.age
    generator, who = np.random.default_rng([seed, 1]), np.full(len(people), -1, dtype=np.int64)
    for one in np.unique(patients):
        rows = np.flatnonzero(cell == one)
        who[rows] = generator.choice(np.flatnonzero(patients == one), len(rows))
    rows = np.flatnonzero(who >= 0)
    return people.part(rows), who[rows]


def _rows(token: str, people: People, who: Ints, evidence: Evidence) -> dict[str, Claims]:
    """Who is named, rightly or wrongly, by what stands beside the token."""
    group = numbered(keys(token, people) & group_mask(token))
    zip3 = people.zip3_of[people.zip5].astype(np.int64)
    known = _packed(zip3, _sex(people), _band(people))
    guess = {version: _packed(zip3, *_guessed(token, group, who, told))
             for version, told in evidence.told.items()}
    years = demographics(people).astype(np.int64)
    sure = attack_guessed(group, zip3, zip3)  # a ZIP is stated, so these are right
    named = evidence.told["released"].identity[who]
    waveform = Claims(named, ~named)
    guesses = {version: _either(sure, attack_guessed(group, known, one))
               for version, one in guess.items()}
    either = _either(guesses["released"], waveform)
    return {"zip3": sure, **guesses, "bands": attack_guessed(group, known, known),
            "years": attack_guessed(group, years, years), "waveform": waveform,
            "both": _either(either, passed_on(group, known, guess["released"], either.right))}


def _either(one: Claims, other: Claims) -> Claims:
    """Who is named in two ways that differ counts as told: an upper bound."""
    right = one.right | other.right
    return Claims(right, (one.wrong | other.wrong) & ~right)


def _guessed(token: str, group: Ints, who: Ints, told: Told) -> tuple[Ints, Ints]:
    """Sex and age band of each, from the own waveforms, or from those of all with the token."""
    return tuple(agreed(group, scores[who]) if token in same else scores.argmax(1)[who]
                 for scores, same in ((told.sex, _GENDER), (told.age, _BORN)))  # type: ignore[return-value]


def _packed(zip3: Ints, sex: Ints, band: Ints) -> Ints:
    return zip3 | (sex << GENDER_SHIFT) | (band << YEAR_SHIFT)


def _sex(people: People) -> Ints:
    """Index of `SEXES`; people count the other way round."""
    return 1 - people.gender.astype(np.int64)


def _band(people: People) -> Ints:
    """Index of `AGE_BANDS`."""
    year = demographics(people).astype(np.int64) >> YEAR_SHIFT
    bands = np.array([age_band(_AS_OF - 1900 - y) for y in range(1 << 7)], dtype=np.int64)
    return np.asarray(bands[year])


def _chance(told: Bools, who: Ints) -> Estimate:
    """Mean over patients of the share that is told of those with their waveforms."""
    size = np.bincount(who)
    share = np.bincount(who, told)[size > 0] / size[size > 0]
    return mean_estimate(share, np.arange(len(share)))


def _guesses(evidence: Evidence, told: Told) -> dict[str, Estimate]:
    """Share of patients whose highest score is the right one."""
    patient = np.arange(len(evidence.sex))
    return {"sex": mean_estimate(told.sex.argmax(1) == evidence.sex, patient, chance=1 / 2),
            "age": mean_estimate(told.age.argmax(1) == evidence.age, patient,
                                 chance=1 / len(AGE_BANDS)),
            "identity": mean_estimate(told.identity, patient, chance=1 / evidence.enrolled)}
