"""The study's page: tables, privacy against utility, waveforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from common.ecg.labels import decided
from common.protocol import ARRHYTHMIA_CLASSES
from server.bundles import load_bundles
from server.report.figures import CLEAN, RELEASED, svg
from server.report.page import render
from server.report.table import accounts, prose
from simulations.studies.tables import HEADER, beats, classes, published, rows, searches, weaker

_COLOURS = [matplotlib.colormaps["tab10"](i) for i in range(10) if i != 7]  # 7 is grey
LARGEST = "20,000"  # the set with the natural prevalence


def write_page(folder: Path, results: dict[str, Any]) -> Path:
    """Write study.html; waveforms only of synthetic patients, or where the settings allow."""
    config = results["config"]
    waves = "" if config["hospitals"] and not config["audit"]["examples"] else _waves(folder,
                                                                                      results)
    sets = results["sets"]
    gains = [[name, on, *(prose(leaf) for leaf in method[on]["auroc_minus_clean"].values())]
             for name, method in results["methods"].items() for on in sets
             if "auroc_minus_clean" in method[on]]
    networks = ["frozen", *results["clean"][LARGEST]["independent"]]
    return render(
        "study.html", folder / "study.html", sets=sets, header=HEADER,
        tables={on: rows(results, on) for on in sets}, gains=gains,
        networks=networks, scatter=_scatter(results), waves=waves, published=published(),
        budget=results["budget"], searches=searches(results), warnings=results["warnings"],
        class_names=ARRHYTHMIA_CLASSES, beats=beats(results), detector=_detector(results),
        on_classes=LARGEST, classes=classes(results, LARGEST), accounts=[
            f"{name}: {line}" for name, method in results["methods"].items()
            if "privacy" in method for line in accounts(method) if "epsilon" in line])


def _detector(results: dict[str, Any]) -> str:
    """How well the delineator finds the annotated beats of clean windows."""
    for method in results["methods"].values():
        leaves = method.get("beats", {}).get("annotated", {}).get("clean")
        if leaves and leaves["sensitivity"]["value"] is not None:
            return (f"sensitivity {prose(leaves['sensitivity'])}, positive predictivity "
                    f"{prose(leaves['positive_predictivity'])}")
    return "no beats are annotated"


def look(number: int) -> tuple[str, Any]:
    """Marker and colour of a method; no two of 63 look alike, and none is clean's grey."""
    return "s^Dv*Xp"[number % 7], _COLOURS[number % 9]


def _scatter(results: dict[str, Any]) -> str:
    """Retrained re-identification against utility by the weaker independent network."""
    on = next(iter(results["sets"]))
    figure = Figure(figsize=(7.5, 4.2))
    axes = figure.subplots()
    clean = results["clean"][on]
    points = {"clean": (weaker(clean), clean["reid"])}
    points |= {name: (weaker(method[on]), method["retrained"][on]["reid"])
               for name, method in results["methods"].items()}
    for number, (name, (auroc, reid)) in enumerate(points.items()):
        if auroc is None or auroc["value"] is None:
            continue  # aggregates have no waveform to diagnose
        mark, colour = ("o", CLEAN) if name == "clean" else look(number - 1)
        axes.plot(auroc["value"], reid["value"], mark, color=colour, label=name, ms=7)
        axes.hlines(reid["value"], auroc["low"], auroc["high"], color=colour, lw=0.7, alpha=0.5)
        axes.vlines(auroc["value"], reid["low"], reid["high"], color=colour, lw=0.7, alpha=0.5)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.axhline(clean["reid"]["chance"], color="k", lw=0.8, ls=":")
    axes.set(xlabel="macro-AUROC, independent network trained on clean windows",
             ylabel="re-identified, attacker retrained", ylim=(-0.03, 1.05))
    return svg(figure)


def _waves(folder: Path, results: dict[str, Any]) -> str:
    """One test window of each class, clean and by every method."""
    bundles = load_bundles(folder / "bundles")
    test = bundles.rows("test")
    classes = decided(bundles.allowed[test])
    files = {name: folder / "methods" / name / "released.npy" for name in results["methods"]}
    released = {name: np.load(file, mmap_mode="r") for name, file in files.items() if file.exists()}
    released = {name: found for name, found in released.items() if found.ndim == 3}  # waveforms
    for found in released.values():  # REACT releases some windows only
        classes = np.where(np.isnan(found[test, 0, 0]), -1, classes)
    chosen = [(c, test[np.flatnonzero(classes == c)[0]]) for c in range(len(ARRHYTHMIA_CLASSES))
              if np.any(classes == c)]
    names = ["clean", *released]
    figure = Figure(figsize=(10, 1.1 * len(names) * max(1, len(chosen)) / 2), layout="constrained")
    grid = figure.subplots(len(names), max(1, len(chosen)), squeeze=False, sharex=True)
    for line, name in zip(grid, names, strict=True):
        for axes, (c, row) in zip(line, chosen, strict=False):
            window = bundles.clean[row, 0] if name == "clean" else released[name][row, 0]
            axes.plot(window, color=CLEAN if name == "clean" else RELEASED, lw=0.8)
            axes.set(xticks=[], yticks=[])
            if name == "clean":
                axes.set_title(ARRHYTHMIA_CLASSES[c])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return svg(figure)
