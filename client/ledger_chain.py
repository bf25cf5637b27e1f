"""The ledger's chain: events that each carry the hash of themselves and of all before.

An event is a JSON object: a *charge* (a release, before it leaves), a *settlement* (what its reply
became) or a *signature* (a person goes on from a chain that is not whole). The chain is a fold over
the stored rows; releases are derived from it and stored nowhere else, so nothing can disagree.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from common.privacy.accounting import Spend

Unit = Literal["none", "window", "patient"]
Trust = Literal["hospital", "aggregate"]
Content = dict[str, Any]


class Head(NamedTuple):
    """Where a chain ends: number of the last event (0: none) and its SHA-256 in hexadecimal."""

    events: int
    hash: str

    def __str__(self) -> str:
        return f"{self.events}:{self.hash}"


START = Head(0, "0" * 64)


@dataclass(frozen=True)
class Release:
    """A charge: UTC time in ISO 8601, hashes in hexadecimal, `reply` None until settled.

    `trust` says whose noise sigma counts: the update's own ("hospital"), or what the sum over
    hospitals is guaranteed to have when this one added a share ("aggregate").
    """

    id: int
    time: str
    run: str
    stage: str
    round: int
    unit: Unit
    trust: Trust
    q: float | None
    sigma: float | None
    steps: int | None
    delta: float
    received: str
    reply: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit) or (self.unit == "none") != (self.spend is None):
            raise ValueError(f"unit is {self.unit!r} with spend {self.spend}")

    @property
    def spend(self) -> Spend | None:
        """Rate, noise and steps; None of a release without privacy."""
        if self.q is None or self.sigma is None or self.steps is None:
            return None
        return Spend(self.q, self.sigma, self.steps)


@dataclass(frozen=True)
class Signature:
    """Who went on from a chain that was not whole, and why; `given_up` are heads it lacks."""

    time: str
    who: str
    why: str
    given_up: tuple[str, ...]


def written(content: Content) -> str:
    """The one way an event is stored: ASCII JSON with sorted keys."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def following(head: Head, content: str) -> Head:
    """The head of a chain after one more event."""
    number = head.events + 1
    return Head(number, hashlib.sha256(f"{number} {head.hash} {content}".encode()).hexdigest())


@dataclass
class Chain:
    """What the rows read so far say.

    Attributes:
        head: the last row, as it is stored.
        heads: every head the chain has had or has given up, as text.
        releases: by the number of their charge.
        signatures: in order.
        headed: some event was written beside a head file.
        broken: the first row that does not hold and that no signature after it covers.
    """

    head: Head = START
    heads: set[str] = field(default_factory=lambda: {str(START)})
    releases: dict[int, Release] = field(default_factory=dict)
    signatures: list[Signature] = field(default_factory=list)
    headed: bool = False
    broken: str | None = None
    _seal: Any = field(default_factory=hashlib.sha256)

    @property
    def seal(self) -> str:
        """SHA-256 of all rows as they are stored, whole or not."""
        return str(self._seal.hexdigest())

    def add(self, number: int, content: str, hash: str) -> None:
        """Read one more row."""
        wrong = self._misfit(number, content, hash)
        try:
            event = json.loads(content)
            if wrong is None and event["event"] == "signature":
                # The links before it may be broken; from here on the seal holds those rows.
                self.broken = None
                wrong = None if event["seal"] == self.seal else f"event {number} seals other rows"
            self._apply(number, event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            wrong = wrong or f"event {number} is unreadable ({error!r})"
        self.broken = self.broken or wrong
        self._seal.update(f"{json.dumps([number, content, hash])}\n".encode())
        self.head = Head(number, hash)
        self.heads.add(str(self.head))

    def _misfit(self, number: int, content: str, hash: str) -> str | None:
        """Why a row does not follow the last one, or None."""
        expected = following(self.head, content)
        if number != expected.events:
            return f"event {number} follows event {self.head.events}"
        if hash != expected.hash:
            return (f"event {number} has hash {hash[:12]}, and its content after event "
                    f"{self.head.events} gives {expected.hash[:12]}")
        return None

    def _apply(self, number: int, event: Content) -> None:
        """Take an event in.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is none of ours.
        """
        kind, headed = event.pop("event"), bool(event.pop("head"))
        if kind == "charge":
            self.releases[number] = Release(number, **event)
        elif kind == "settlement":
            release = self.releases[event["row"]]
            if release.reply is not None:
                raise ValueError(f"event {event['row']} was settled before")
            self.releases[event["row"]] = replace(release, reply=event["reply"])
        elif kind == "signature":
            signature = Signature(event["time"], event["who"], event["why"],
                                  tuple(event["given_up"]))
            self.signatures.append(signature)
            self.heads.update(signature.given_up)
        else:
            raise ValueError(f"event is {kind!r}")
        self.headed = self.headed or headed
