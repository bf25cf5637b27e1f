"""Tables 1 to 3 of the linkage risk paper beside ours, and what families add; percent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulations.population import TRISTATE, Population
from simulations.studies.linkage import EVERYTHING, Cell
from simulations.studies.linkage_paper import NON_UNIQUE, RISK, RISK_OF, SUPERSET, TIMES

Results = Mapping[str, Any]
Sheet = tuple[tuple[str, ...], list[list[str]]]
_APART = "diff %"


def tables(results: Results) -> dict[str, Sheet]:
    """Title -> header and rows; a table of populations that were not drawn has no row."""
    return {
        "Table 1: 25 million people of three states, percent": _risk(results),
        "Table 2: token B, national, re-identified percent by size of the reference":
            _superset(results),
        "Table 3: percent whose token somebody else has": _non_unique(results),
        "Twins, namesakes and households: percent whose token somebody else has":
            _families(results)}


def percent(results: Results, cell: Cell, token: str, figure: str) -> float | None:
    """Mean over seeds; None where it was not drawn."""
    found = results["cells"].get(cell.group, {}).get(token)
    return None if found is None else 100 * float(found[figure]["value"])


def three_states(n: int, families: bool = False) -> Cell:
    """The cell of that many people."""
    return Cell(Population(n, 0, TRISTATE, families=families), EVERYTHING)


def national(n: int, times: int = 1) -> Cell:
    """The cell of token B; of a reference that is `times` as large."""
    of = Population(n, 0, "national")
    return Cell(of, "ABCEF") if times == 1 else Cell(of, "B", "superset", times)


def _risk(results: Results) -> Sheet:
    header = ("token", "re-identified", "paper", _APART, "unblinded", "paper", _APART,
              "with families")
    rows = [[token, *_beside(percent(results, three_states(RISK_OF), token, "reidentified"), ours),
             *_beside(percent(results, three_states(RISK_OF), token, "unblinded"), unblinded),
             _shown(percent(results, three_states(RISK_OF, True), token, "reidentified"))]
            for token, (ours, unblinded) in RISK.items()]
    return header, [row for row in rows if row[1] != "-"]


def _superset(results: Results) -> Sheet:
    header = ("people", *(text for k in TIMES for text in (f"{k}x", "paper", _APART)))
    return header, _rows({n: [
        (percent(results, national(n, k), "B", "reidentified"), theirs)
        for k, theirs in zip(TIMES, paper, strict=True)] for n, paper in SUPERSET.items()})


def _non_unique(results: Results) -> Sheet:
    header = ("people", *(text for t in "ABCD" for text in (t, "paper", _APART)))
    return header, _rows({n: [
        (percent(results, three_states(n), token, "non_unique"), theirs)
        for token, theirs in zip("ABCD", paper, strict=True)] for n, paper in NON_UNIQUE.items()})


def _families(results: Results) -> Sheet:
    header = ("people", "B", "with", "paper", "D", "with", "paper")
    rows = []
    for n, paper in NON_UNIQUE.items():
        row = [f"{n:,}"]
        for token in "BD":
            row += [*(_shown(percent(results, three_states(n, related), token, "non_unique"), 4)
                      for related in (False, True)), f"{paper['ABCD'.index(token)]:g}"]
        rows.append(row)
    return header, [row for row in rows if row[1] != "-"]


def _rows(found: Mapping[int, list[tuple[float | None, float]]]) -> list[list[str]]:
    """A row a size, of which something was drawn."""
    return [[f"{n:,}", *(text for ours, theirs in pairs for text in _beside(ours, theirs))]
            for n, pairs in found.items() if any(ours is not None for ours, _ in pairs)]


def _beside(ours: float | None, paper: float) -> tuple[str, str, str]:
    """Ours, the paper's, and the relative difference in percent."""
    apart = "-" if ours is None or not paper else f"{100 * (ours / paper - 1):+.0f}"
    return _shown(ours), f"{paper:g}", apart


def _shown(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
