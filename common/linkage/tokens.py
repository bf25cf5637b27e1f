"""Tokens: what hospitals send instead of names, so that an agent can tell equal people.

A token is HMAC-SHA-256 of some normalised attributes under the study's key. Without the key nobody
can try names; whoever has it can, so the agent has none.
Source: A to F are those of the linkage risk paper in docs/linkage.md.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from common.errors import InputError
from common.linkage.names import normalise

DEFAULT = "P"
_LEAST_KEY = 32  # bytes
_OLDEST = date(1880, 1, 1)


@dataclass(frozen=True)
class Person:
    """Normalised attributes; empty where they are not known.

    Args:
        first, last: of `normalise`.
        born: date of birth as YYYY-MM-DD.
        gender: F or M.
        zip5: five digits.
        id: an identifier that all sites have, such as a national number.
    """

    first: str = ""
    last: str = ""
    born: str = ""
    gender: str = ""
    zip5: str = ""
    id: str = ""


def person(first: str, last: str, born: str, gender: str, zip5: str, stable: str = "") -> Person:
    """Normalise and check attributes.

    Raises:
        InputError: a malformed date, gender, ZIP code or name; the value is not repeated, as it is
            a patient's.
    """
    return Person(normalise(first), normalise(last), _date(born), _gender(gender), _zip5(zip5),
                  "".join(stable.split()).upper())


def soundex(name: str) -> str:
    """American Soundex of a normalised name; empty for none."""
    import jellyfish

    return jellyfish.soundex(name) if name else ""


# Token -> its attributes, all of which must be known.
TOKENS: dict[str, Callable[[Person], tuple[str, ...]]] = {
    "A": lambda p: (soundex(p.first), soundex(p.last), p.born, p.gender),
    "B": lambda p: (p.first[:1], p.last, p.born, p.gender),
    "C": lambda p: (soundex(p.first), soundex(p.last), p.zip5[:3]),
    "D": lambda p: (p.first, p.last, p.born, p.zip5),
    "E": lambda p: (soundex(p.first), soundex(p.last), p.born),
    "F": lambda p: (p.first[:1], p.last, p.born),
    # Precise, and survives a move; a name that changed is a missed link.
    "P": lambda p: (p.first, p.last, p.born),
    "I": lambda p: (p.first, p.last, p.born, p.id),
}


def token(kind: str, of: Person, key: bytes) -> str:
    """The token in hexadecimal, or "" where an attribute is missing.

    Args:
        kind: of TOKENS.
        of: whom.
        key: of the study.

    Raises:
        InputError: an unknown token.
    """
    check_kind(kind)
    parts = TOKENS[kind](of)
    if not all(parts):
        return ""
    text = json.dumps([kind, *parts])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_kind(kind: str) -> None:
    """Raise InputError unless there is such a token."""
    if kind not in TOKENS:
        raise InputError(f"token is {kind!r}; allowed: {', '.join(TOKENS)}")


def read_key(file: Path) -> bytes:
    """The study's key.

    Raises:
        InputError: it cannot be read, is too short, or others may read it.
    """
    try:
        key, mode = file.read_bytes(), file.stat().st_mode & 0o777
    except OSError as error:
        raise InputError(f"key is '{file}'; it cannot be read: {error.strerror}") from None
    if len(key) < _LEAST_KEY:
        raise InputError(f"key is '{file}' with {len(key)} bytes; at least {_LEAST_KEY} are needed")
    if mode & 0o077:
        raise InputError(f"key is '{file}' with mode {mode:o}; allowed is one that its owner alone "
                         f"may read: chmod 600 {file}")
    return key


def key_id(key: bytes) -> str:
    """What tells keys apart without giving them away, 16 hexadecimal digits."""
    return hmac.new(key, b"fedrean key id", hashlib.sha256).hexdigest()[:16]


def _date(text: str) -> str:
    if not text.strip():
        return ""
    try:
        found = date.fromisoformat(text.strip())
    except ValueError:
        raise InputError("a date of birth is no date; allowed: YYYY-MM-DD") from None
    if not _OLDEST <= found <= date.today():
        raise InputError(f"a date of birth lies outside {_OLDEST} to today")
    return found.isoformat()


def _gender(text: str) -> str:
    word = text.strip().upper()
    known = {"": "", "F": "F", "FEMALE": "F", "M": "M", "MALE": "M"}
    if word not in known:
        raise InputError("a gender is none of F, M, female, male and nothing")
    return known[word]


def _zip5(text: str) -> str:
    digits = text.strip()[:5]
    if digits and not (len(digits) == 5 and digits.isdecimal()):
        raise InputError("a ZIP code is none; allowed: five digits, or nine with a hyphen")
    return digits
