"""The hospital's privacy ledger: every release is written down before it leaves.

One SQLite file per hospital holds all runs and stages, because the total counts. A release is
charged in one exclusive transaction that reads the whole history, so two processes cannot both
pass the cap; a crash after the charge over-counts and never under-counts. Its numbers stay here.
The history is a chain of hashes, checked whenever it is read, whose head is also kept elsewhere:
docs/ledger.md says what that notices, and what a person must do then.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from client.ledger_account import Account, account_of, counted, shown
from client.ledger_chain import Chain, Content, Head, Release, Signature, Trust, Unit
from client.ledger_file import LedgerFile
from client.ledger_head import read_head
from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend, epsilon

__all__ = ["Account", "Head", "Ledger", "Release", "Signature", "Trust", "Unit",
           "accept"]

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Ledger:
    """The file of all releases of one hospital; safe to use from several processes."""

    def __init__(self, path: Path, head: Path | None = None) -> None:
        """Open the ledger at `path`, or create it; one of the first format is migrated.

        Args:
            path: of the SQLite file.
            head: file, best on another volume, that remembers how far the chain had come.

        Raises:
            BudgetError: the chain is broken, or lacks what `head` names (the ledger is missing, or
                an older copy was restored), or `head` itself is missing; so does each method.
            InputError: if `path` holds anything but a ledger, or cannot be created.
        """
        self._file = LedgerFile(path, head)
        self._file.prepare(create=False)
        self._chain()
        self._file.publish()

    def charge(
        self, run: str, stage: str, round: int, unit: Unit, spend: Spend | None,
        delta: float, received: str, cap: float, trust: Trust = "hospital",
    ) -> int:  # fmt: skip
        """Write a release down, durably, before it leaves; return its row id.

        The cap holds for the unit that is asked for. A release of unit 'none' is never refused and
        blocks no later one, though the account is infinite from then on; nor do window releases
        block patient releases.

        Args:
            unit, spend: 'window' or 'patient' with rate, noise and steps of the release, or 'none'
                with None.
            delta: failure probability at which the history is composed.
            received: SHA-256 (hexadecimal) of the inputs the release answers.
            cap: largest allowed total epsilon per `unit`; infinity for no cap.
            trust: 'hospital' where the update carries all the noise; 'aggregate', of unit patient
                alone, where it carries a share and sigma is what the sum is guaranteed to have.

        Raises:
            BudgetError: if the total would exceed the cap; nothing is written then.
            InputError: if an argument does not fit.
        """
        numbers = _checked_numbers(unit, spend, cap, trust)
        _check_hash("received", received)
        asked = epsilon([] if spend is None else [spend], delta)  # loads Opacus before the lock
        content = {"event": "charge", "time": _now(), "run": run, "stage": stage,
                   "round": int(round), "unit": unit, "trust": trust, **numbers,
                   "delta": float(delta), "received": received}

        def decide(chain: Chain, trouble: str | None) -> Content:
            _refuse(trouble)
            if spend is not None and unit != "none":
                releases = list(chain.releases.values())
                total = counted(unit, releases, delta, spend)
                if total > cap:
                    spent = counted(unit, releases, delta)
                    raise BudgetError(f"epsilon per {unit} at delta {delta:g}: spent "
                                      f"{shown(spent)}, asked {shown(asked)}, together "
                                      f"{shown(total)}; the cap is {cap:.4g}")
            return content

        return self._file.append(decide)

    def settle(self, row: int, reply_hash: str) -> None:
        """Record the SHA-256 of the reply that a charged release became.

        Raises:
            InputError: if there is no such row, or it was settled with another reply.
        """
        _check_hash("reply_hash", reply_hash)

        def decide(chain: Chain, trouble: str | None) -> Content | None:
            _refuse(trouble)
            release = chain.releases.get(row)
            if release is None or release.reply not in (None, reply_hash):
                raise InputError(f"row is {row}; it must exist and hold no other reply")
            if release.reply == reply_hash:
                return None
            return {"event": "settlement", "time": _now(), "row": int(row), "reply": reply_hash}

        self._file.append(decide)

    def find(self, run: str, stage: str, round: int, received: str) -> Release | None:
        """Return the latest settled release of the same inputs, to resend its bytes for free."""
        wanted = (run, stage, round, received)
        found = [release for release in self.releases() if release.reply is not None
                 and (release.run, release.stage, release.round, release.received) == wanted]
        return found[-1] if found else None

    def account(self, delta: float) -> Account:
        """Compose all releases at `delta`, settled or not.

        Raises:
            InputError: if delta does not lie between 0 and 1.
        """
        chain = self._chain()
        accepted = chain.signatures[0].time if chain.signatures else None
        return account_of(list(chain.releases.values()), delta, accepted)

    def releases(self) -> list[Release]:
        """All releases in the order of their charges."""
        return list(self._chain().releases.values())

    def signatures(self) -> list[Signature]:
        """Who went on from a ledger that was not whole, in order."""
        return self._chain().signatures

    def head(self) -> Head:
        """Number of events and hash of the last: to be sent to the server, which echoes it."""
        return self._chain().head

    def check_echo(self, count: int, hash: str) -> None:
        """Check that the chain holds a head that the server has seen.

        Raises:
            BudgetError: it does not: an older copy was restored.
        """
        chain = self._chain()
        if str(Head(count, hash)) not in chain.heads:
            raise BudgetError(self._file.refusal(chain, str(Head(count, hash)), "the server"))

    def _chain(self) -> Chain:
        chain, trouble = self._file.read()
        _refuse(trouble)
        return chain


def accept(path: Path, head: Path | None, who: str, why: str, echo: Head | None = None) -> None:
    """Sign to go on from a ledger that is not whole, with what is there.

    The signature stays in the chain, and the account is not bounded from then on, because releases
    may be missing. It covers the rows as they are: a later edit of them is noticed again.

    Args:
        path, head: as of `Ledger`.
        who, why: of the person, not empty.
        echo: a head that the server names and the chain lacks.

    Raises:
        InputError: the ledger is whole, so that there is nothing to sign; or an argument is empty.
    """
    for name, text in (("who", who), ("why", why)):
        if not text.strip():
            raise InputError(f"{name} is {text!r}; it must say so in words, for it stays for ever")
    file = LedgerFile(path, head)
    if not path.exists() and (head is None or not head.exists()):
        raise InputError(f"ledger is {path}, which does not exist; there is nothing to sign for")
    kept = read_head(head)
    file.prepare(create=True)

    def decide(chain: Chain, trouble: str | None) -> Content:
        lacking = [seen for seen in (kept, None if echo is None else str(echo))
                   if seen is not None and seen not in chain.heads]
        if trouble is None and not lacking:
            raise InputError(f"ledger {path} is whole, with {chain.head.events} events; there is "
                             "nothing to sign for")
        return {"event": "signature", "time": _now(), "who": who, "why": why,
                "given_up": lacking, "seal": chain.seal}

    file.append(decide)


def _refuse(trouble: str | None) -> None:
    """Raise BudgetError if there is trouble."""
    if trouble:
        raise BudgetError(trouble)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked_numbers(unit: Unit, spend: Spend | None, cap: float, trust: Trust) -> Content:
    """Return q, sigma and steps as JSON types; raise InputError if they do not fit the unit."""
    if unit not in ("none", "window", "patient") or (unit == "none") != (spend is None):
        raise InputError(f"unit is {unit!r} with spend {spend}; allowed: 'window' or 'patient' "
                         "with a spend, or 'none' with None")
    if trust not in ("hospital", "aggregate") or (trust == "aggregate" and unit != "patient"):
        raise InputError(f"trust is {trust!r} of unit {unit!r}; allowed: 'hospital', or of unit "
                         "'patient' also 'aggregate'")
    if not cap >= 0:
        raise InputError(f"cap is {cap}; it must be at least 0")
    if spend is None:
        return {"q": None, "sigma": None, "steps": None}
    return {"q": float(spend.q), "sigma": float(spend.sigma), "steps": int(spend.steps)}


def _check_hash(name: str, value: str) -> None:
    """Raise InputError unless value is a SHA-256 in lower-case hexadecimal."""
    if not _SHA256.fullmatch(value):
        raise InputError(f"{name} is {value!r}; it must be 64 lower-case hexadecimal digits")
