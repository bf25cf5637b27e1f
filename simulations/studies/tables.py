"""The study's main table as rows of text, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from common.protocol import ARRHYTHMIA_CLASSES
from server.report.table import cell
from simulations.studies.paper import TABLE

HEADER = ("method", "ReID", "ReID retrained", "sex (from .5)", "age", "accuracy", "AUROC frozen",
          "AUROC independent", "AUROC retrained", "PRD %", "ms/window", "d", "d_sym", "fit s")
# For 80 columns and without intervals, columns of HEADER with shorter titles.
LEAKAGE = {0: "", 1: "ReID", 2: "retrained", 3: "sex", 4: "age", 11: "d", 12: "d_sym"}
UTILITY = {0: "", 5: "accuracy", 6: "frozen", 7: "indep.", 8: "retrained", 9: "PRD %",
           10: "ms/window", 13: "fit s"}


def rows(results: dict[str, Any], on: str) -> list[list[str]]:
    """A row for clean windows and each method, on one evaluation set; a dash: not measured."""
    lines = [_row("clean", results["clean"][on], {}, {})]
    for name, method in results["methods"].items():
        lines.append(_row(name, method[on], method["retrained"][on], method))
    return lines


def _row(name: str, row: dict[str, Any], retrained: dict[str, Any],
         method: dict[str, Any]) -> list[str]:
    sex = row.get("sex", retrained.get("sex"))
    frozen, after = row.get("frozen") or {}, retrained.get("diagnosis", {})
    return [
        name, cell(row.get("reid")), cell(retrained.get("reid")) if retrained else "",
        "-" if not sex or sex["value"] is None else
        f"{sex['value']:.3f} ({abs(sex['value'] - 0.5):.3f})",
        cell(row.get("age", retrained.get("age"))),
        cell(frozen.get("arrhythmia_accuracy")), cell(frozen.get("macro_auroc")),
        cell(weaker(row)), cell(after.get("macro_auroc")) if retrained else "",
        cell(row.get("prd")), _plain(method.get("ms_per_window"), 2), _plain(row.get("d"), 3),
        _plain(row.get("d_sym"), 3), _plain(method.get("fit_s"), 0)]


def weaker(row: dict[str, Any]) -> dict[str, Any] | None:
    """Macro-AUROC by the weaker of the networks that were in no loss."""
    leaves = [one["macro_auroc"] for one in (row.get("independent") or {}).values()]
    return min(leaves, key=lambda leaf: leaf["value"] or 0.0, default=None)


def classes(results: dict[str, Any], on: str) -> list[list[str]]:
    """AUROC of each class by each network, a row a method and network."""
    lines = []
    for name, row in {"clean": results["clean"], **results["methods"]}.items():
        networks = {"frozen": row[on]["frozen"], **(row[on]["independent"] or {}),
                    "retrained": row.get("retrained", {}).get(on, {}).get("diagnosis")}
        lines += [[name, network, *(cell(tree["auroc"].get(c)) for c in ARRHYTHMIA_CLASSES)]
                  for network, tree in networks.items() if tree]
    return lines


def beats(results: dict[str, Any]) -> list[list[str]]:
    """What a delineator finds in each release, beside what it finds in clean windows."""
    trees = {name: row["beats"] for name, row in results["methods"].items() if "beats" in row}
    lines = []
    for name, tree in trees.items():
        agreement = [cell(leaf) for leaf in tree["r_peaks"].values()]
        waves = [text for wave in tree["intervals"].values() for text in (
            f"{_plain(wave['clean']['value'], 0)} > {_plain(wave['released']['value'], 0)}",
            cell(wave["within"]))]
        lines.append([name, *agreement, *waves, cell(tree["failed"]["released"])])
    return lines


def searches(results: dict[str, Any]) -> list[list[str]]:
    """What each method spent on its settings, and what it found; nothing for whole runs."""
    return [[name, str(method["search"]["trials"]), f"{method['search']['minutes']:.1f}",
             f"{method['search']['d_sym']:.3f}", _plain(method["fit_s"], 0),
             ", ".join(f"{key} {value:.3g}" for key, value in method["settings"].items())]
            for name, method in results["methods"].items() if method["settings"]]


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def short(row: list[str], columns: Iterable[int]) -> list[str]:
    """Some of a row's values, without intervals, for the terminal."""
    return [row[i].split(" ")[0] for i in columns]


def published() -> list[list[str]]:
    """The paper's own rows: ReID, sex, age, accuracy, macro-AUROC, PRD."""
    return [[name, *(f"{value:g}" for value in values)] for name, values in TABLE.items()]
