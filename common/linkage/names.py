"""Names as they are compared: case, accents, punctuation and suffixes do not count."""

from __future__ import annotations

import re
import unicodedata

from common.errors import InputError

SUFFIXES = ("JR", "SR", "II", "III", "IV", "MD", "PHD")
# Latin letters that Unicode does not take apart.
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe",
                          "ı": "i"})


def normalise(name: str) -> str:
    """A name in capital letters A to Z without blanks; empty where there is none.

    "O'Neill-Müller, Jr." and "oneill muller" are the same. Two languages may write one name
    differently (Müller, Mueller): that is a missed link, not a wrong one.

    Raises:
        InputError: letters of another script, which no rule here turns into Latin ones.
    """
    plain = unicodedata.normalize("NFKD", name.casefold().translate(_LETTERS))
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    foreign = [c for c in plain if c.isalpha() and not "a" <= c <= "z"]
    if foreign:
        script = unicodedata.name(foreign[0], "unknown").split(" ")[0].lower()
        raise InputError(f"a name has {len(foreign)} letters that are not Latin ({script}); "
                         "allowed: Latin letters, as the study transcribes them")
    words = re.sub(r"[^a-z ]", "", re.sub(r"[-,.\t]", " ", plain)).upper().split()
    while len(words) > 1 and words[-1] in SUFFIXES:
        words.pop()
    return "".join(words)
