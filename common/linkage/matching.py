"""What the linkage agent does: equal tokens are one person, kept at so many hospitals at most.

It has no key and no demographics. The protected unit is all records with one equal token: a false
link drops somebody's record and over-charges, and nothing is united over several tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import SystemRandom

from common.errors import InputError
from common.linkage.token_file import Header

Keep = dict[str, bool]  # handle -> whether the hospital keeps the person


@dataclass(frozen=True)
class Site:
    """A hospital's token file.

    Args:
        header: of it.
        token_of: handle -> token.
    """

    header: Header
    token_of: Mapping[str, str]

    @classmethod
    def of(cls, header: Header, rows: Sequence[Sequence[str]]) -> Site:
        """Check the rows (handle, token).

        Raises:
            InputError: no row, a handle twice, or a token that is none.
        """
        token_of: dict[str, str] = {}
        for handle, token in rows:
            if handle in token_of:
                raise InputError(f"site {header.site}: handle {handle!r} is there twice; allowed: "
                                 "once")
            if len(token) != 64 or set(token) - set("0123456789abcdef"):
                raise InputError(f"site {header.site}: the token of handle {handle!r} is not 64 "
                                 "hexadecimal digits")
            token_of[handle] = token
        if not token_of:
            raise InputError(f"site {header.site} has 0 tokens; at least 1 is needed")
        return cls(header, token_of)


def match(sites: Sequence[Site], most: int) -> dict[str, Keep]:
    """Who is kept where, by site: each token at `most` hospitals at most.

    Which ones is drawn by the operating system's randomness, anew for each token, so that no
    hospital can tell from its own list who else has a person. Handles of one token at one
    hospital are kept, or dropped, together.

    Args:
        sites: their token files, at least one.
        most: the public cap M, at least 1.

    Raises:
        InputError: sites of different studies, tokens or keys; one twice; a cap below 1.
    """
    _check(sites, most)
    where: defaultdict[str, list[int]] = defaultdict(list)
    for number, site in enumerate(sites):
        for token in dict.fromkeys(site.token_of.values()):
            where[token].append(number)
    chance = SystemRandom()
    kept = {token: set(chance.sample(at, most)) if len(at) > most else set(at)
            for token, at in where.items()}
    return {site.header.site: {handle: number in kept[token]
                               for handle, token in site.token_of.items()}
            for number, site in enumerate(sites)}


def _check(sites: Sequence[Site], most: int) -> None:
    if most < 1:
        raise InputError(f"sites is {most}; allowed: 1 or more")
    if not sites:
        raise InputError("0 token files were given; at least 1 is needed")
    first = sites[0].header
    for site in sites[1:]:
        for name in ("study", "token", "key"):
            mine, theirs = getattr(first, name), getattr(site.header, name)
            if mine != theirs:
                raise InputError(f"{name} is {mine!r} at {first.site} and {theirs!r} at "
                                 f"{site.header.site}; all sites need the same")
    names = [site.header.site for site in sites]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"site {min(twice)!r} is given twice; allowed: once")
