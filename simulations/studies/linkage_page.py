"""The page of `fedrean study linkage`: the paper's tables beside ours, and its figures by shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from server.report.figures import svg
from server.report.page import render
from simulations.population import TRISTATE
from simulations.studies.linkage import EVERYTHING, SMALLEST_DRAWN, STATES, ZIP3S
from simulations.studies.linkage_tables import tables
from simulations.token_risk import SYNTHETIC

Lines = dict[str, list[tuple[int, float]]]
_DASHES = ("-", "--")
_EACH = ", mean of each"
_THREE = TRISTATE.replace(",", "+")


def write_page(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write linkage.html."""
    return render("linkage.html", folder / "linkage.html", results=results,
                  figure=_figure(results["cells"]), tables=tables(results))


def panels(cells: Mapping[str, Any]) -> dict[str, Lines]:
    """Panel -> line -> (people, percent re-identified), sorted."""
    three = _line_of(cells, "alone", _THREE, EVERYTHING)
    each = [_line_of(cells, "alone", state, EVERYTHING) for state in STATES]
    country = _line_of(cells, "alone", "national", "ABCEF")
    both = _line_of(cells, "together", "national", "AB")
    few = {zip3s: _line_of(cells, "alone", "national", "AB", f"{zip3s}zip3s") for zip3s in ZIP3S}
    found: dict[str, Lines] = {}
    for tokens in ("ABEF", "C"):  # D is 0, or next to it
        found[f"Figure 2: three states; dashed: mean of each, {', '.join(tokens)}"] = {
            name: line for t in tokens
            for name, line in ((t, three.get(t, [])),
                               (f"{t}{_EACH}", _mean([of.get(t, []) for of in each])))}
    found["Figure 3: national"] = {t: country.get(t, []) for t in "ABCEF"}
    found["Figure 4: two tokens a person, national"] = {
        **{t: _until(country.get(t, []), both.get("A+B", [])) for t in "AB"},
        "A and B": both.get("A+B", [])}
    for token in "AB":
        found[f"Figure 5: people in few 3-digit ZIPs, {token}"] = {
            **{f"{zip3s}": line.get(token, []) for zip3s, line in few.items()},
            "all": _until(country.get(token, []), few[ZIP3S[0]].get(token, []))}
    found["Figure 6: without the year of birth, three states"] = {
        name: three.get(name, []) for t in "AB" for name in (t, f"{t}, no year")}
    return found


def _line_of(cells: Mapping[str, Any], kind: str, where: str, tokens: str,
             *rest: str) -> Lines:
    """Token -> points, of the cells that differ in nothing but their size."""
    found: Lines = defaultdict(list)
    for group, leaves in cells.items():
        parts = group.split("-")
        if [parts[0], parts[1], *parts[3:]] == [kind, where, tokens, *rest]:
            for token, leaf in leaves.items():
                found[token].append((int(parts[2]), 100 * leaf["reidentified"]["value"]))
    return {token: sorted(points) for token, points in found.items()}


def _mean(lines: list[list[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Over the states that have so many people."""
    at: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for n, value in line:
            at[n].append(value)
    return [(n, sum(values) / len(values)) for n, values in sorted(at.items())
            if len(values) == len(lines)]


def _until(line: list[tuple[int, float]],
           other: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The points at sizes that the other line has, too."""
    sizes = {n for n, _ in other}
    return [point for point in line if point[0] in sizes]


def _figure(cells: Mapping[str, Any]) -> str:
    found = panels(cells)
    figure = Figure(figsize=(9, 12), layout="constrained")
    grid = figure.subplots(4, 2).ravel()
    for axes, (title, lines) in zip(grid, found.items(), strict=False):
        axes.set_title(f"{title}\n{SYNTHETIC}", fontsize=8)
        _panel(axes, lines)
    for axes in grid[len(found):]:
        axes.axis("off")
    return svg(figure)


def _panel(axes: Axes, lines: Lines) -> None:
    """Lines of one token have one colour; zero cannot be drawn on a logarithm."""
    colours: dict[str, str] = {}
    drawn: dict[str, int] = defaultdict(int)
    for name, points in lines.items():
        token = name.split(",")[0]
        colour = colours.setdefault(token, f"C{len(colours)}")
        shown = [(n, value) for n, value in points if value > 0 and n >= SMALLEST_DRAWN]
        if shown:
            axes.plot(*zip(*shown, strict=True), _DASHES[drawn[token]], marker="o", ms=3, lw=1,
                      color=colour, label=None if name.endswith(_EACH) else name)
        drawn[token] += 1
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="re-identified, percent")
    if axes.lines:
        axes.legend(frameon=False, fontsize=7)
