"""`fedrean budget`: read, check, sign for and plan with privacy ledgers."""

from __future__ import annotations

import getpass
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from common.errors import InputError

if TYPE_CHECKING:
    from client.ledger import Ledger, Release

budget = typer.Typer(no_args_is_help=True, help="Show, check and plan a hospital's privacy budget.")
SIGMAS = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)  # of the table that `plan` prints

LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="A hospital's ledger.")]
HeadPath = Annotated[Path | None, typer.Option("--head", help="Its head file, kept elsewhere.")]
Delta = Annotated[float, typer.Option(help="Failure probability; below one over the patients.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; null: not bounded.")]


@budget.command()
def show(ledgers: Annotated[list[Path], typer.Argument(metavar="LEDGER...",
                                                       help="Ledgers, such as RUN/ledgers/*.")],
         delta: Delta = 1e-5, head: HeadPath = None, as_json: AsJson = False) -> None:
    """Print what was spent per window and per patient, in all and per run and stage.

    A release that protects windows, or nothing, leaves the patient not bounded from then on: that
    is no number, however small the epsilon per window. Epsilons of parts do not add up to the
    total, which composes them more tightly.
    """
    if head and len(ledgers) > 1:
        raise InputError(f"head is {head} with {len(ledgers)} ledgers; each has its own, so give "
                         "one of each")
    found = [_facts(path, _open(path, head), delta) for path in ledgers]
    if as_json:
        print(json.dumps(found, indent=1))
        return
    console = Console()
    total = _table("ledger", "unit", "per window", "per patient", "releases")
    parts = _table("ledger", "run", "stage", "unit", "noise of", "releases", "steps", "per unit")
    for fact in found:
        total.add_row(fact["ledger"], fact["unit"], _shown(fact["epsilon_window"]),
                      _shown(fact["epsilon_patient"]), str(fact["releases"]))
        for part in fact["parts"]:
            parts.add_row(fact["ledger"], *(str(part[key]) for key in (
                "run", "stage", "unit", "trust", "releases", "steps")), _shown(part["epsilon"]))
    console.print(f"epsilon at delta {delta:g}", highlight=False)
    for table in (total, parts) if parts.row_count else (total,):
        console.print(table)
    for fact in found:
        for signed in fact["signatures"]:
            console.print(f"{fact['ledger']}: not bounded since {signed['time']}, releases may be "
                          f"missing: signed by {signed['who']}: {signed['why']}",
                          soft_wrap=True, highlight=False, markup=False)


@budget.command()
def verify(ledger: LedgerPath, head: HeadPath = None) -> None:
    """Check every event of a ledger, and that it is not an older copy; exit 1 if it is not whole.

    Without --head an older copy, or rows cut off at the end, cannot be told from the newest.
    """
    checked = _open(ledger, head).head()
    print(f"{ledger}: whole, {checked.events} events, head {checked}")


@budget.command()
def accept(
    ledger: LedgerPath,
    why: Annotated[str, typer.Option(help="What happened, for those who read the ledger later.")],
    head: HeadPath = None,
    who: Annotated[str, typer.Option(help="Who signs; default: the login name.")] = "",
    echo: Annotated[str, typer.Option(metavar="COUNT:HASH", help="A head that the server names and "
                                      "the ledger lacks, as the refusal printed it.")] = "",
) -> None:
    """Sign to go on from a ledger that is broken, missing or an older copy.

    Restore the newest copy instead if there is one: releases may be missing here, so the account
    is not bounded from now on, and the signature stays in the ledger for ever.
    """
    from client.ledger import accept as sign

    sign(ledger, head, who or _login(), why, _head_of(echo) if echo else None)
    print(f"{ledger}: signed; not bounded from now on, head {_open(ledger, head).head()}")


@budget.command()
def plan(
    cap: Annotated[float, typer.Option(help="Largest total epsilon per unit.")],
    q: Annotated[float, typer.Option("--q", help="Sampling rate of a step.")],
    ledger: Annotated[Path | None, typer.Argument(metavar="[LEDGER]", help="What was spent; "
                                                  "without it nothing was.")] = None,
    delta: Delta = 1e-5,
    unit: Annotated[str, typer.Option(help="window or patient.")] = "patient",
    sigma: Annotated[float | None, typer.Option(help="Noise over clipping norm: prints the steps "
                                                "that fit.")] = None,
    steps: Annotated[int | None, typer.Option(help="Prints the sigma that is needed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answer what can still be done with what is left, before anything runs.

    \b
    plan LEDGER --cap 8 --q 0.1              the steps that fit, for several sigmas
    plan LEDGER --cap 8 --q 0.1 --sigma 2    the steps that fit
    plan LEDGER --cap 8 --q 0.1 --steps 500  the sigma that they need
    """
    from client.ledger_plan import Plan

    if sigma is not None and steps is not None:
        raise InputError(f"sigma is {sigma} and steps is {steps}; give one, and get the other")
    opened = _open(ledger, None) if ledger else None
    asked = Plan(cast(Literal["window", "patient"], unit), opened.releases() if opened else [], q,
                 delta, cap)
    if steps is not None:
        rows = [(asked.sigma(steps), steps)]
    else:
        rows = [(s, asked.steps(s)) for s in (SIGMAS if sigma is None else (sigma,))]
    notes = [] if opened is None else _notes(opened, unit, delta)
    if as_json:
        print(json.dumps({"unit": unit, "cap": cap, "delta": delta, "q": q, "notes": notes,
                          "spent": _finite(asked.spent()),
                          "plans": [{"sigma": s, "steps": n} for s, n in rows]}, indent=1))
        return
    table = _table("sigma", "steps that fit" if steps is None else "steps")
    for s, n in rows:
        table.add_row(f"{s:.4g}", f"{n:,}")
    console = Console()
    console.print(f"epsilon per {unit} at delta {delta:g}: spent {_shown(asked.spent())} of "
                  f"{cap:g}; q {q:g}", highlight=False)
    console.print(table)
    for note in notes:
        console.print(note, soft_wrap=True, highlight=False)


def _open(path: Path, head: Path | None) -> Ledger:
    """A ledger that exists, or that its head file misses."""
    from client.ledger import Ledger

    if not path.exists() and (head is None or not head.exists()):
        raise InputError(f"LEDGER is {str(path)!r}, which does not exist; allowed: a ledger")
    return Ledger(path, head)


def _facts(path: Path, ledger: Ledger, delta: float) -> dict[str, Any]:
    """What `show` prints of a ledger."""
    account = ledger.account(delta)
    return {"ledger": str(path), "unit": account.unit, "delta": delta,
            "epsilon_window": _finite(account.epsilon_window),
            "epsilon_patient": _finite(account.epsilon_patient), "releases": account.releases,
            "parts": _parts(ledger.releases(), delta),
            "signatures": [{"time": s.time, "who": s.who, "why": s.why, "given_up": s.given_up}
                           for s in ledger.signatures()]}


def _parts(releases: list[Release], delta: float) -> list[dict[str, Any]]:
    """Releases of the same run, stage, unit and trust, in the order of their first."""
    from client.ledger_account import counted

    groups: dict[tuple[str, ...], list[Release]] = {}
    for release in releases:
        key = release.run, release.stage, release.unit, release.trust
        groups.setdefault(key, []).append(release)
    parts = []
    for names, rows in groups.items():
        unit = rows[0].unit
        spent = math.inf if unit == "none" else counted(unit, rows, delta)
        parts.append({**dict(zip(("run", "stage", "unit", "trust"), names, strict=True)),
                      "releases": len(rows), "steps": sum(row.steps or 0 for row in rows),
                      "epsilon": _finite(spent)})
    return parts


def _notes(ledger: Ledger, unit: str, delta: float) -> list[str]:
    """Says where the plan's epsilon is not the account's."""
    account = ledger.account(delta)
    spent = account.epsilon_patient if unit == "patient" else account.epsilon_window
    if _finite(spent) is not None:
        return []
    return [f"{unit}: not bounded, by releases that protect no {unit} or that may be missing; the "
            "plan counts the others alone."]


def _table(*header: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in header:
        table.add_column(name, overflow="fold")
    return table


def _shown(epsilon: float | None) -> str:
    from client.ledger_account import shown

    return shown(epsilon)


def _finite(epsilon: float | None) -> float | None:
    """JSON has no infinity, and what is not bounded is no number."""
    return epsilon if epsilon is not None and math.isfinite(epsilon) else None


def _head_of(text: str) -> Any:
    from client.ledger import Head

    count, _, digest = text.partition(":")
    if not count.isdecimal() or not digest:
        raise InputError(f"echo is {text!r}; allowed: COUNT:HASH, as the refusal printed it")
    return Head(int(count), digest)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run under a user without a name
        raise InputError("who is '', and this user has no login name; allowed: --who NAME"
                         ) from None
