"""Keys: what is in them, and what is left when something is taken out."""

import numpy as np
import pytest

from common.errors import InputError
from common.linkage.keys import (
    EPOCH,
    Q_MASK,
    TOKENS,
    demographics,
    group_mask,
    keys,
    without_demographics,
    without_year,
)
from tests.common.linkage.people import crowd

PEOPLE = crowd(30_000, seed=1, names=40, places=8)
YEAR = (EPOCH + PEOPLE.born.astype(int)).astype("datetime64[Y]").astype(int)
ZIP3 = PEOPLE.zip3_of[PEOPLE.zip5]
FIRST, LAST = PEOPLE.soundex_first[PEOPLE.first], PEOPLE.soundex_last[PEOPLE.last]
INITIAL = PEOPLE.initials[PEOPLE.first]
PARTS = {"A": (FIRST, LAST, PEOPLE.born, PEOPLE.gender),
         "B": (INITIAL, PEOPLE.last, PEOPLE.born, PEOPLE.gender), "C": (FIRST, LAST, ZIP3),
         "D": (PEOPLE.first, PEOPLE.last, PEOPLE.born, PEOPLE.zip5),
         "E": (FIRST, LAST, PEOPLE.born), "F": (INITIAL, PEOPLE.last, PEOPLE.born),
         "P": (PEOPLE.first, PEOPLE.last, PEOPLE.born)}


def same(numbers, columns):
    """Whether both split people into the same groups."""
    one = np.unique(numbers, return_inverse=True)[1]
    other = np.unique(np.stack([c.astype(int) for c in columns]), axis=1, return_inverse=True)[1]
    both = len(np.unique(np.stack([one, other.ravel()]), axis=1).T)
    return both == one.max() + 1 == other.max() + 1


@pytest.mark.parametrize("token", TOKENS)
def test_people_are_one_group_where_the_token_is_equal(token):
    assert same(keys(token, PEOPLE) & group_mask(token), PARTS[token])


@pytest.mark.parametrize("token", TOKENS)
def test_what_is_beside_the_token(token):
    made = keys(token, PEOPLE)
    assert same(made & Q_MASK, (YEAR, PEOPLE.gender, ZIP3))
    assert np.array_equal(made & Q_MASK, demographics(PEOPLE))
    without_year(made)
    assert same(made & Q_MASK, (PEOPLE.gender, ZIP3))
    assert same(made & group_mask(token), PARTS[token])
    mask = without_demographics(made)
    assert not (made & Q_MASK).any() and same(made & mask, PARTS[token])


def test_an_unknown_token_is_refused():
    with pytest.raises(InputError, match="token is 'Z'; allowed: A, B, C, D, E, F, P"):
        keys("Z", PEOPLE)
