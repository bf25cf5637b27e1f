"""REAN's study as tables, for the terminal and the page, and the page with its two curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from common.anonymizers.rean import ReanAnonymizer
from common.audits.corner import Point, symmetric_corner_distance
from server.report.figures import CLEAN, RELEASED, WARN, svg
from server.report.page import render
from server.report.table import cell
from simulations.studies.paper import ABLATION, TABLE
from simulations.studies.rean import TARGETS, TEST, above_chance

Row = dict[str, Any]
COLOURS = {"away": RELEASED, "uniform": WARN, "decoy": "#6b8e23"}


@dataclass(frozen=True)
class Sheet:
    """A table as text; a cell may carry its interval after a space."""

    title: str
    header: tuple[str, ...]
    rows: list[list[str]]


def sheets(results: dict[str, Any]) -> dict[str, Sheet]:
    """The four tables, by what they answer."""
    return {"bound": _bounds(results), "weights": _weights(results),
            "ablation": _ablation(results), "targets": _targets(results),
            "attacker": _attacker(results)}


def _signal(row: Row) -> list[str]:
    leaves = row["training_signal"]
    return [cell(leaves["reid"]), cell(leaves["sex"]), _from_half(leaves["sex"]["value"]),
            cell(leaves["age"])]


def _from_half(sex: float | None) -> str:
    return "-" if sex is None else f"{abs(sex - 0.5):.3f}".replace("0.", ".", 1)


def _number(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if value < 1 else f"{value:.2f}"


def _bounds(results: dict[str, Any]) -> Sheet:
    bound = results["bound"]
    mark = "chosen" if bound["qualifies"] else "nearest"
    rows = [["clean", *_signal(results["clean"]["validation"]),
             cell(results["clean"]["validation"]["frozen"]["macro_auroc"]), "", "", ""]]
    for row in bound["tried"]:
        rows.append([f"{row['bound']:g}", *_signal(row), cell(row["frozen"]["macro_auroc"]),
                     cell(row["prd"]), _number(row["excess"]),
                     mark if row["bound"] == bound["chosen"] else ""])
    leaves = results["clean"]["validation"]["training_signal"]
    rows.append(["chance", _number(leaves["reid"]["chance"]), ".500", ".000",
                 _number(leaves["age"]["chance"]), ".500", "", "", ""])
    return Sheet(f"bound: {results['windows']['validation']} validation windows, training signal",
                 ("bound", "ReID", "sex", "|sex-.5|", "age", "AUROC", "PRD %", "excess", ""), rows)


def _weights(results: dict[str, Any]) -> Sheet:
    rows = []
    for target, found in results["search"].items():
        own = found["trials"][0]["d_sym"]
        rows.append([target, *(f"{found['settings'][key]:.3g}" for key in ReanAnonymizer.space),
                     _number(found["d_sym"]), _number(own), str(len(found["trials"]))])
    return Sheet("weights: the best trial of each search, validation windows",
                 ("target", *ReanAnonymizer.space, "d_sym", "first trial", "trials"), rows)


def _ablation(results: dict[str, Any]) -> Sheet:
    """Each combination, and under it the paper's own, whose d_sym follows from its figures."""
    rows = []
    corner = Point(*TABLE["clean"][:4], TABLE["clean"][5])
    for terms, row in results["ablation"].items():
        rows.append([terms, *_signal(row), cell(row["frozen"]["arrhythmia_accuracy"]),
                     cell(row["prd"]), _number(row["d"]), _number(row["d_sym"])])
        reid, sex, age, accuracy, prd, d = ABLATION[terms]
        d_sym = symmetric_corner_distance(corner, Point(reid, sex, age, accuracy, prd),
                                          {"reid": 1 / 186, "age": 0.2})
        rows.append([f"{terms} paper", _number(reid), _number(sex), _from_half(sex), _number(age),
                     _number(accuracy), f"{prd:.2f}", _number(d), _number(d_sym)])
    return Sheet(f"ablation: {results['windows'][TEST]} test windows, training signal",
                 ("terms", "ReID", "sex", "|sex-.5|", "age", "acc.", "PRD %", "d", "d_sym"), rows)


def _targets(results: dict[str, Any]) -> Sheet:
    rows = []
    for name, row in _compared(results):
        judges = [one["macro_auroc"] for one in row["independent"].values()]
        worst = min(judges, key=lambda leaf: leaf["value"] or 0.0)
        rows.append([name, *_signal(row), cell(row["frozen"]["macro_auroc"]), cell(worst),
                     cell(row["prd"]), *(_number(row[key]) if key in row else ""
                                         for key in ("d", "d_sym"))])
    return Sheet(f"targets: {results['windows'][TEST]} test windows, training signal",
                 ("", "ReID", "sex", "|sex-.5|", "age", "AUROC", "indep.", "PRD %", "d", "d_sym"),
                 rows)


def _attacker(results: dict[str, Any]) -> Sheet:
    rows = [[name, *_signal({"training_signal": row})] for name, row in _compared(results)]
    return Sheet("targets, the auditor's attacker",
                 ("", "ReID", "sex", "|sex-.5|", "age"), rows)


def _compared(results: dict[str, Any]) -> list[tuple[str, Row]]:
    return [("clean", results["clean"][TEST]), *((t, results["targets"][t]) for t in TARGETS)]


def overrides(results: dict[str, Any]) -> dict[str, str]:
    """Hydra overrides with the bound and the weights found, per target."""
    return {target: " ".join([f"rean.bound={results['bound']['chosen']:g}", f"rean.target={target}",
                              *(f"rean.{key}={value:.4g}"
                                for key, value in found["settings"].items())])
            for target, found in results["search"].items()}


def verdict(results: dict[str, Any]) -> str:
    """The bound chosen, and which attackers the choice says nothing about."""
    bound, clean = results["bound"], results["clean"]["validation"]["training_signal"]
    blind = [name for name, leaf in clean.items() if above_chance(leaf) == 0]
    weak = f" At chance on clean windows already: {', '.join(blind)}." if blind else ""
    if bound["qualifies"]:
        return (f"Chosen: {bound['chosen']:g}, the smallest bound with identity, sex and age at or "
                f"below chance and PRD below {bound['band']:g} %.{weak}")
    return (f"No bound qualifies. The nearest is {bound['chosen']:g}, and the rest of this study "
            f"uses it.{weak}")


def write_page(folder: Path, results: dict[str, Any]) -> Path:
    """Write rean.html, one page without outside resources."""
    return render(
        "rean.html", folder / "rean.html",
        sheets=sheets(results), verdict=verdict(results), overrides=overrides(results),
        budget=results["budget"], bounds=_curve(results), trials=_trials(results),
        ceiling=results["config"]["rean"]["ceiling"], band=f"{results['bound']['band']:g}")


def _curve(results: dict[str, Any]) -> str:
    """Leakage, AUROC and PRD against the bound."""
    tried = results["bound"]["tried"]
    bounds = [row["bound"] for row in tried]
    figure = Figure(figsize=(4.6, 4.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    lines = {"reid": ("ReID", RELEASED, "o-"), "sex": ("sex", WARN, "s-"),
             "age": ("age", "#6b8e23", "^-"), "macro_auroc": ("AUROC", CLEAN, "d--")}
    for place, (key, (name, colour, style)) in enumerate(lines.items()):
        found = [(row["training_signal"] | row["frozen"])[key] for row in tried]
        if any(one["value"] is None for one in found):
            continue
        beside = [bound * (0.97 + 0.02 * place) for bound in bounds]  # intervals do not overlap
        upper.plot(beside, [one["value"] for one in found], style, color=colour, ms=4, label=name)
        if all(one["low"] is not None for one in found):
            upper.vlines(beside, [one["low"] for one in found], [one["high"] for one in found],
                         color=colour, lw=1, alpha=0.6)
        upper.axhline(found[0]["chance"], color=colour, lw=0.7, ls=":")
    lower.plot(bounds, [row["prd"]["value"] for row in tried], "o-", color="k", ms=4)
    lower.axhline(results["bound"]["band"], color="k", lw=0.7, ls=":")
    for axes in (upper, lower):
        axes.axvline(results["bound"]["chosen"], color="k", lw=6, alpha=0.08)
    upper.set(ylim=(-0.03, 1.03), ylabel="share of windows; AUROC")
    lower.set(xscale="log", xlabel="bound", ylabel="PRD %", ylim=(0, None),
              xticks=bounds, xticklabels=[f"{bound:g}" for bound in bounds])
    lower.xaxis.set_minor_locator(NullLocator())
    figure.legend(*upper.get_legend_handles_labels(), loc="outside upper center", ncols=4,
                  frameon=False, fontsize=8)
    return svg(figure)


def _trials(results: dict[str, Any]) -> str:
    """d_sym of every trial, and the best so far."""
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for target, found in results["search"].items():
        y = [one["d_sym"] for one in found["trials"]]
        x = range(1, len(y) + 1)
        axes.plot(x, y, "o", ms=3, color=COLOURS[target], alpha=0.7)
        axes.step(x, [min(y[: i + 1]) for i in range(len(y))], where="post", lw=1.2,
                  color=COLOURS[target], label=target)
    axes.set(xlabel="trial (1: the run's own weights)", ylabel="d_sym")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)
    return svg(figure)
