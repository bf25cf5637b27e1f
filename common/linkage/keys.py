"""People as one integer each: the token they share with others, and what is known of them besides.

A key holds 46 bits of token above 18 bits of q = (year of birth, gender, 3-digit ZIP). Sorted keys
bring equal tokens together, and in a group equal q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

Keys = NDArray[np.uint64]
TOKENS = ("A", "B", "C", "D", "E", "F", "P")
Q_BITS, TOKEN_BITS = 18, 46
Q_MASK = np.uint64((1 << Q_BITS) - 1)
YEAR_SHIFT, GENDER_SHIFT = 11, 10  # q = year since 1900, gender, ZIP3 index
_GENDER = np.uint64(1 << GENDER_SHIFT)
_ZIP3 = np.uint64((1 << GENDER_SHIFT) - 1)
_YEAR = Q_MASK ^ _GENDER ^ _ZIP3
EPOCH = np.datetime64("1900-01-01")


@dataclass(frozen=True)
class People:
    """Rows of people; each array is [n], of names and places as indices.

    Args:
        first: initial (0 to 25) and Soundex code (0 to 16383) are looked up by it.
        last: the same of the surname.
        born: days since 1900-01-01, 0 to 46,750 (year 2027).
        gender: 0 or 1.
        zip5: ZIP code.
        initials: of each first name, [first names].
        soundex_first, soundex_last: of each name.
        zip3_of: index of the first three digits, 0 to 1023, of each ZIP code.
    """

    first: NDArray[np.uint32]
    last: NDArray[np.uint32]
    born: NDArray[np.uint16]
    gender: NDArray[np.uint8]
    zip5: NDArray[np.uint16]
    initials: NDArray[np.uint8]
    soundex_first: NDArray[np.uint16]
    soundex_last: NDArray[np.uint16]
    zip3_of: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.first)

    def part(self, rows: slice | NDArray[np.int64]) -> People:
        """Some of the people."""
        return People(self.first[rows], self.last[rows], self.born[rows], self.gender[rows],
                      self.zip5[rows], self.initials, self.soundex_first, self.soundex_last,
                      self.zip3_of)


_YEAR_OF_DAY = ((EPOCH + np.arange(1 << 16)).astype("datetime64[Y]").astype(np.int64)
                - EPOCH.astype("datetime64[Y]").astype(np.int64)).clip(0, 127).astype(np.uint64)


def demographics(people: People) -> Keys:
    """q of each, [n] below 2^18."""
    q = people.zip3_of[people.zip5].astype(np.uint64)
    q |= people.gender.astype(np.uint64) << np.uint64(GENDER_SHIFT)
    q |= _YEAR_OF_DAY[people.born] << np.uint64(YEAR_SHIFT)
    return q


def keys(token: str, people: People) -> Keys:
    """Token and q of each in one integer, [n].

    Tokens A to F are those of the linkage risk paper, P is the one that hospitals use. Only their
    equality matters to the attack, so nothing is hashed, but D and P, whose parts need more bits
    than there are.

    Args:
        token: A S(first) S(last) born gender; B initial last born gender; C S(first) S(last) ZIP3;
            D first last born ZIP5; E S(first) S(last) born; F initial last born; P first last born.
        people: of whom.

    Raises:
        InputError: an unknown token.
    """
    if token not in TOKENS:
        raise InputError(f"token is {token!r}; allowed: {', '.join(TOKENS)}")
    made = _token(token, people)
    made <<= np.uint64(Q_BITS)
    made |= demographics(people)
    return made


def group_mask(token: str) -> np.uint64:
    """Bits of a key that are equal in a group.

    Of D the year and ZIP3 belong to it, so that groups are told by 63 bits and not by a hash of 46:
    among 250 million people two hashes then meet by chance once in some 300 such populations. P has
    53 bits: some six such pairs among 250 million.
    """
    everything = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    return everything ^ {"D": _GENDER, "P": _GENDER | _ZIP3}.get(token, Q_MASK)


def without_year(keys: Keys) -> None:
    """Take the year of birth out of q, in place."""
    keys &= np.uint64(0xFFFF_FFFF_FFFF_FFFF) ^ _YEAR


def without_demographics(keys: Keys) -> np.uint64:
    """Empty q, in place; the mask of a group is then this one."""
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) ^ Q_MASK
    keys &= mask
    return mask


def _token(token: str, people: People) -> Keys:
    born, gender = people.born.astype(np.uint64), people.gender.astype(np.uint64)
    if token in "DP":
        where = (people.zip5,) if token == "D" else ()
        return _hashed(people.first, people.last, people.born, *where)
    if token in "BF":
        made = people.initials[people.first].astype(np.uint64) << np.uint64(23)
        made |= people.last.astype(np.uint64)  # 5 + 23 bits
    else:
        made = people.soundex_first[people.first].astype(np.uint64) << np.uint64(14)
        made |= people.soundex_last[people.last].astype(np.uint64)  # 14 + 14 bits
    if token == "C":
        return (made << np.uint64(10)) | people.zip3_of[people.zip5].astype(np.uint64)
    made = (made << np.uint64(16)) | born
    return (made << np.uint64(1)) | gender if token in "AB" else made


def _hashed(*columns: NDArray[np.unsignedinteger]) -> Keys:
    """46 bits of a mix of the columns (splitmix64, Steele et al. 2014)."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed ^= column.astype(np.uint64)
        mixed += np.uint64(0x9E37_79B9_7F4A_7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58_476D_1CE4_E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D0_49BB_1331_11EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed >> np.uint64(64 - TOKEN_BITS)
