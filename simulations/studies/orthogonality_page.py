"""The orthogonality study's tables and page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from common.audits.orthogonality import ATTRIBUTES
from server.report.figures import CLEAN, RELEASED, WARN, svg
from server.report.page import render
from simulations.studies.orthogonality import learned, unlearned
from simulations.studies.paper import ANGLES, COSINES

NAMES = {"frozen": "ViT (frozen)", "resnet1d": "ResNet1D", "inception_time": "InceptionTime",
         "cnn_lstm": "CNN-LSTM"}
WAYS = {"privacy": RELEASED, "utility": WARN, "random": CLEAN}
LOSSES = ("utility", *ATTRIBUTES)
PARTS = ("bundled", *ATTRIBUTES)

Rows = list[list[str]]


def number(leaf: Mapping[str, Any] | None, digits: int) -> str:
    """The value alone; a dash where nothing was measured."""
    return "-" if not leaf or leaf["value"] is None else f"{leaf['value']:.{digits}f}"


def interval(leaf: Mapping[str, Any] | None, digits: int) -> str:
    """`89.8 [88.9, 90.6]`: value and 95 % interval."""
    text = number(leaf, digits)
    if not leaf or leaf["low"] is None or leaf["high"] is None:
        return text
    return f"{text} [{leaf['low']:.{digits}f}, {leaf['high']:.{digits}f}]"


def angle_rows(results: dict[str, Any]) -> Rows:
    """Network, attack, clean accuracy (! if it did not learn), angle, |cos|, share, left out."""
    rows = []
    for name, part in _angles(results):
        found = results["angles"][name][part]
        mark = "!" if unlearned(results, name, part) else ""
        accuracy = "" if part == "bundled" else number(results["clean"][name][part], 3)
        rows.append([NAMES[name] if part == "bundled" else "", part, accuracy + mark,
                     interval(found["angle"], 1), number(found["absolute_cosine"], 3),
                     number(found["near_orthogonal"], 3), number(found["left_out"], 2)])
    return rows


def step_rows(results: dict[str, Any]) -> Rows:
    """Step, macro-AUROC and identity accuracy along the privacy, utility, random directions."""
    steps = results["steps"]
    rows = [["0 %", *3 * [number(steps["clean"]["macro_auroc"], 3)],
             *3 * [number(steps["clean"]["identity"], 3)]]]
    for share in steps["privacy"]:
        rows.append([f"{100 * float(share):g} %",
                     *(number(steps[way][share][what], 3)
                       for what in ("macro_auroc", "identity") for way in WAYS)])
    return rows


def cosine_rows(results: dict[str, Any]) -> Rows:
    """Pair of losses, cosine, the paper's."""
    return [[pair.replace("-", " - "), interval(leaf, 3), f"{COSINES[pair]:g}"]
            for pair, leaf in results["parameter_cosines"].items()]


def terminal(results: dict[str, Any]) -> list[tuple[str, str, list[str], Rows]]:
    """(title, caption, header, rows) of each table, within 80 columns."""
    chance = results["angles"]["frozen"]["bundled"]["absolute_cosine"]["chance"]
    return [
        (f"Input gradients, diagnosis against attacker: {results['windows']} of "
         f"{results['available']} test windows",
         f"Random vectors are near 90 degrees too, with |cos| {chance:.3f}.\n"
         "An exclamation mark: a network that did not learn, whose angle says little.",
         ["", "", "acc.", "angle, degrees", "|cos|", "80-100", "left out"], angle_rows(results)),
        ("Steps of equal length: macro-AUROC, then identity accuracy", "Intervals on the page.",
         ["step", "privacy", "utility", "random", "privacy", "utility", "random"],
         step_rows(results)),
        ("Cosines in the anonymizer's parameters", "The paper's: other data, its classifiers.",
         ["losses", "cosine", "paper"], cosine_rows(results))]


def write_page(folder: Path, results: dict[str, Any]) -> Path:
    """Write orthogonality.html."""
    cosines = {pair: leaf["value"] for pair, leaf in results["parameter_cosines"].items()}
    return render(
        "orthogonality.html", folder / "orthogonality.html", results=results,
        angles=_wide_angles(results), control=_wide_steps(results), cosines=cosine_rows(results),
        weak=_weak(results), number=number, interval=interval, spread=_spread(results),
        figures={"angles": angle_figure(results), "sizes": size_figure(results),
                 "auroc": step_figure(results, "macro_auroc", "macro-AUROC"),
                 "identity": step_figure(results, "identity", "windows identified"),
                 "ours": matrix_figure(cosines, "here"),
                 "paper": matrix_figure(COSINES, "the paper, other data")})


def _wide_angles(results: dict[str, Any]) -> Rows:
    """The page's rows: intervals, what random directions give, and the paper's figures."""
    rows = []
    for (name, part), row in zip(_angles(results), angle_rows(results), strict=True):
        found, paper = results["angles"][name][part], ANGLES.get((name, part), ("", "", ""))
        size, near = found["absolute_cosine"], found["near_orthogonal"]
        rows.append([*row[:4], interval(found["cosine"], 3), interval(size, 3),
                     f"{size['chance']:.3f}", interval(near, 3), f"{near['chance']:.3f}", row[6],
                     *map(str, paper)])
    return rows


def _wide_steps(results: dict[str, Any]) -> Rows:
    """The page's rows: a line for each step and direction, with intervals."""
    steps = results["steps"]
    trees = [("0 %", "clean", steps["clean"])]
    trees += [(f"{100 * float(share):g} %", way, steps[way][share])
              for share in steps["privacy"] for way in WAYS]
    return [[step, way, interval(tree["macro_auroc"], 3), interval(tree["identity"], 3)]
            for step, way, tree in trees]


def _angles(results: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, part) for name in results["angles"] for part in PARTS]


def _spread(results: dict[str, Any]) -> float:
    """Degrees from 90 within which 95 % of random directions lie, in that many dimensions."""
    return float(np.degrees(1.96 / np.sqrt(results["samples"])))


def _weak(results: dict[str, Any]) -> list[str]:
    """Each network that did not learn its task, with its clean figure."""
    lines = []
    for name, parts in results["clean"].items():
        for part, leaf in parts.items():
            if not learned(leaf):
                who = "diagnosis" if name == "diagnosis" else f"{NAMES[name]} on {part}"
                lines.append(f"{who} {number(leaf, 3)} (chance {leaf['chance']:.3f})")
    return lines


def _intervals(results: dict[str, Any], what: str) -> Figure:
    """A line for each network and attack, hollow where a network did not learn."""
    figure = Figure(figsize=(4.4, 4.2), layout="constrained")
    axes = figure.subplots()
    pairs = _angles(results)
    heights = [i + 0.7 * (i // 4) for i in range(len(pairs))]
    for (name, part), y in zip(pairs, heights, strict=True):
        leaf = results["angles"][name][part][what]
        if leaf["value"] is None:
            continue
        weak = unlearned(results, name, part)
        if leaf["low"] is not None:
            axes.hlines(y, leaf["low"], leaf["high"], color=RELEASED)
        axes.plot(leaf["value"], y, "o", ms=5, color=RELEASED, mfc="white" if weak else RELEASED)
    axes.set_yticks(heights, [f"{NAMES[name]}, {part}" if part == "bundled" else part
                              for name, part in pairs])
    axes.invert_yaxis()
    return figure


def angle_figure(results: dict[str, Any]) -> str:
    """Mean angles in the paper's band, and where random directions lie."""
    figure = _intervals(results, "angle")
    axes, spread = figure.axes[0], _spread(results)
    axes.axvspan(80, 100, color="#eef3f6", zorder=0, label="80 to 100 degrees")
    axes.axvspan(90 - spread, 90 + spread, color="#cfd4d8", zorder=1,
                 label="95 % of random directions")
    axes.axvline(90, color="k", lw=0.8, ls=":")
    low, high = axes.get_xlim()
    axes.set(xlabel="mean angle to the diagnosis gradient, degrees",
             xlim=(min(low, 77), max(high, 103)))
    figure.legend(loc="outside upper center", frameon=False, fontsize=8, ncols=2)
    return svg(figure)


def size_figure(results: dict[str, Any]) -> str:
    """Mean |cosine|, in which opposite signs do not cancel, beside that of random directions."""
    figure = _intervals(results, "absolute_cosine")
    axes = figure.axes[0]
    chance = next(iter(results["angles"].values()))["bundled"]["absolute_cosine"]["chance"]
    axes.axvline(chance, color="k", lw=0.8, ls=":", label=f"random directions, {chance:.3f}")
    axes.set(xlabel="mean |cosine| with the diagnosis gradient")
    axes.set_xlim(left=0)
    figure.legend(loc="outside upper center", frameon=False, fontsize=8)
    return svg(figure)


def step_figure(results: dict[str, Any], what: str, label: str) -> str:
    """One figure of merit against the length of the step, with 95 % intervals."""
    figure = Figure(figsize=(4.4, 3.2), layout="constrained")
    axes = figure.subplots()
    steps = results["steps"]
    shift = {"privacy": -0.1, "utility": 0.0, "random": 0.1}  # intervals side by side
    for way, colour in WAYS.items():
        points = [(0.0, steps["clean"][what])]
        points += [(100 * float(share), tree[what]) for share, tree in steps[way].items()]
        points = [(x, leaf) for x, leaf in points if leaf["value"] is not None]
        axes.plot([x for x, _ in points], [leaf["value"] for _, leaf in points], "o-", ms=4,
                  color=colour, label=way)
        for x, leaf in points[1:]:
            if leaf["low"] is not None:
                axes.vlines(x + shift[way], leaf["low"], leaf["high"], color=colour, lw=1.2)
    if steps["clean"][what]["chance"] is not None:
        axes.axhline(steps["clean"][what]["chance"], color="k", lw=0.8, ls=":", label="chance")
    axes.set(xlabel="step, % of the window's norm", ylabel=label, ylim=(-0.03, 1.03))
    figure.legend(loc="outside upper center", frameon=False, fontsize=8, ncols=4)
    return svg(figure)


def matrix_figure(cosines: Mapping[str, float | None], title: str) -> str:
    """Cosines between the four losses' gradients as a picture with numbers."""
    grid = np.eye(len(LOSSES))
    for (i, a), (j, b) in combinations(enumerate(LOSSES), 2):
        value = cosines[f"{a}-{b}"]
        grid[i, j] = grid[j, i] = np.nan if value is None else value
    figure = Figure(figsize=(4.0, 3.4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="RdBu_r", vmin=-1, vmax=1)
    for (i, j), value in np.ndenumerate(grid):
        axes.text(j, i, f"{value:.2f}", ha="center", va="center",
                  color="white" if abs(value) > 0.6 else "black")
    axes.set_xticks(range(len(LOSSES)), LOSSES)
    axes.set_yticks(range(len(LOSSES)), LOSSES)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    figure.colorbar(image, shrink=0.8, label="cosine")
    return svg(figure)
