"""The study's main table as rows of text, for the terminal and the page."""

from __future__ import annotations

from typing import Any

from server.report.table import cell
from simulations.studies.paper import TABLE

HEADER = ("method", "ReID", "ReID retrained", "sex (from .5)", "age", "accuracy", "AUROC frozen",
          "AUROC independent", "AUROC retrained", "PRD %", "ms/window", "d", "d_sym", "fit s")
SHORT = ("", "ReID", "retr.", "sex", "age", "acc.", "frozen", "indep.", "retr.", "PRD %", "ms", "d",
         "d_sym")  # for 80 columns, without intervals


def rows(results: dict[str, Any], on: str) -> list[list[str]]:
    """A row for clean windows and each method, on one evaluation set."""
    lines = [_row("clean", results["clean"][on], {}, {})]
    for name, method in results["methods"].items():
        lines.append(_row(name, method[on], method["retrained"][on], method))
    return lines


def _row(name: str, row: dict[str, Any], retrained: dict[str, Any],
         method: dict[str, Any]) -> list[str]:
    sex, worst = row["sex"]["value"], min(
        row["independent"].values(), key=lambda one: one["macro_auroc"]["value"] or 0.0)
    after = retrained.get("diagnosis", {}).get("macro_auroc")
    return [
        name, cell(row["reid"]), cell(retrained.get("reid")) if retrained else "",
        "-" if sex is None else f"{sex:.3f} ({abs(sex - 0.5):.3f})", cell(row["age"]),
        cell(row["frozen"]["arrhythmia_accuracy"]), cell(row["frozen"]["macro_auroc"]),
        cell(worst["macro_auroc"]), cell(after) if retrained else "", cell(row["prd"]),
        _plain(method.get("ms_per_window"), 2), _plain(row.get("d"), 3),
        _plain(row.get("d_sym"), 3), _plain(method.get("fit_s"), 0)]


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def short(row: list[str]) -> list[str]:
    """A row's values alone, for the terminal."""
    return [text.split(" ")[0] for text in row[: len(SHORT)]]


def published() -> list[list[str]]:
    """The paper's own rows: ReID, sex, age, accuracy, macro-AUROC, PRD."""
    return [[name, *(f"{value:g}" for value in values)] for name, values in TABLE.items()]
