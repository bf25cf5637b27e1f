"""What hospitals hold, in plain facts, beside what the REAN paper says of its databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg import subsets
from common.ecg.databases import DATABASES, PAPER_SHARES, PAPER_WINDOWS
from common.ecg.labels import decided
from common.ecg.pooling import merge
from common.ecg.store import summary
from common.ecg.windows import Store
from common.protocol import ARRHYTHMIA_CLASSES


def describe(stores: Sequence[Store], seed: int = 0) -> dict[str, Any]:
    """Facts of each hospital, of all together, the evaluation sets they give, and the paper's.

    Args:
        stores: prepared windows, one store a hospital, each name once.
        seed: of the evaluation sets.

    Returns:
        `hospitals.<name>`, `all` (where there are several), `sets.<name>`, `paper`.
    """
    found: dict[str, Any] = {
        "hospitals": {store.info["name"]: _facts(store.index, store.info) for store in stores}}
    index, info = merge(stores)
    if len(stores) > 1:
        found["all"] = _facts(index, info)
    found["sets"] = _sets(index, seed)
    found["paper"] = _published()
    return found


def _facts(index: NDArray[Any], info: dict[str, Any]) -> dict[str, Any]:
    people, ages = summary(index), list(info["ages"].values())
    return {
        "patients": len(np.unique(index["patient"])),
        "sex": people["sex"],
        "age": people["age"],
        "ages": {"known": len(ages), "youngest": min(ages, default=None),
                 "oldest": max(ages, default=None)},
        "reserved_patients": len(np.unique(index["patient"][index["reserved"]])),
        "records": len(info["records"]),
        "records_by_leads": info["records_by_leads"],
        "records_left_out": dict(info["left_out"]),
        "records_uncalibrated": info["uncalibrated"],
        "recorded_hours": round(info["recorded_hours"], 3),
        "hours": round(info["hours"], 3),
        "windows": len(index),
        "windows_strict": _classes(index["strict"]),
        "windows_paper": _classes(index["paper"]),
        "windows_skipped": info["skipped"],
        "bad_seconds": {reason: round(s, 3) for reason, s in info["bad_seconds"].items()},
    }  # fmt: skip


def _classes(masks: NDArray[np.uint8]) -> dict[str, int]:
    classes = decided(np.asarray(masks, dtype=np.uint8))
    counts = {name: int(np.sum(classes == i)) for i, name in enumerate(ARRHYTHMIA_CLASSES)}
    return {**counts, "undecided": int(np.sum(classes < 0))}


def _sets(index: NDArray[Any], seed: int) -> dict[str, Any]:
    """The paper's sets under both readings of the labels."""
    sets = {"shared 500": subsets.shared_set, "natural 20,000": subsets.natural_subset,
            "SVE-enriched": subsets.balanced_set,
            "balanced training 30,000": subsets.balanced_training_set}
    found = {}
    for mode in ("strict", "paper"):
        classes = decided(np.asarray(index[mode], dtype=np.uint8))
        for name, draw in sets.items():
            rows = draw(index, classes, seed)
            found[f"{name}, labels={mode}"] = subsets.composition(index, classes, rows)
    return found


def _published() -> dict[str, Any]:
    """The REAN paper's figures: of all four databases, and of each."""
    rows = {name: database.paper for name, database in DATABASES.items() if database.paper}
    each = {name: {"patients": row.patients, "sex": {"M": row.men, "F": row.women},
                   "ages": list(row.ages), "remark": row.remark} for name, row in rows.items()}
    return {"patients": sum(row.patients for row in rows.values()),
            "sex": {"M": sum(row.men for row in rows.values()),
                    "F": sum(row.women for row in rows.values())},
            "ages": [min(row.ages[0] for row in rows.values()),
                     max(row.ages[1] for row in rows.values())],
            "windows": PAPER_WINDOWS, "share": PAPER_SHARES, "databases": each}


def table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of cells: a column for each hospital, for all, and for the paper's four."""
    columns = {**found["hospitals"], **({"all": found["all"]} if "all" in found else {})}
    paper = found["paper"]
    beside = {"patients": f"{paper['patients']}", "windows": f"{paper['windows']:,}",
              "men / women / unknown": f"{paper['sex']['M']} / {paper['sex']['F']} / 0",
              "ages, years (known)": f"{paper['ages'][0]} to {paper['ages'][1]} (184)",
              **{f"  {name}, labels=paper": f"{share} %" for name, share in
                 paper["share"].items()}}
    rows = [[name, *cells, beside.get(name, "")] for name, cells in _rows(list(columns.values()))]
    return ["", *columns, "REAN paper, 4 databases"], rows


def _rows(facts: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    def line(name: str, key: str) -> tuple[str, list[str]]:
        return name, [_cell(fact[key]) for fact in facts]

    rows = [line("patients", "patients"),
            ("men / women / unknown",
             [" / ".join(str(n) for n in fact["sex"].values()) for fact in facts]),
            ("ages, years (known)", [_ages(fact["ages"]) for fact in facts])]
    rows += _parts(facts, "age", "  {}, patients")
    rows += [line("patients reserved", "reserved_patients"), line("records used", "records"),
             ("records left out", [str(len(fact["records_left_out"])) for fact in facts]),
             line("records not calibrated", "records_uncalibrated")]
    rows += _parts(facts, "records_by_leads", "  {}, records")
    rows += [line("hours recorded", "recorded_hours"), line("hours in windows", "hours"),
             line("windows", "windows")]
    for mode in ("strict", "paper"):
        rows += _parts(facts, f"windows_{mode}", f"  {{}}, labels={mode}", share=True)
    rows += [("windows skipped", [str(sum(f["windows_skipped"].values())) for f in facts])]
    rows += _parts(facts, "windows_skipped", "  {}, windows")
    rows += _parts(facts, "bad_seconds", "  {}, seconds")
    return rows


def _parts(facts: list[dict[str, Any]], key: str, name: str,
           share: bool = False) -> list[tuple[str, list[str]]]:
    """A row for each part that any hospital has; `share` adds percent of the hospital's sum."""
    parts = list(dict.fromkeys(part for fact in facts for part in fact[key]))
    rows = []
    for part in parts:
        cells = []
        for fact in facts:
            value, total = fact[key].get(part, 0), sum(fact[key].values())
            percent = f" ({100 * value / total:.1f} %)" if share and total else ""
            cells.append(f"{_cell(value)}{percent}")
        rows.append((name.format(part), cells))
    return rows


def _ages(ages: dict[str, Any]) -> str:
    if not ages["known"]:
        return "(0)"
    return f"{ages['youngest']:g} to {ages['oldest']:g} ({ages['known']})"


def _cell(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def lines(found: dict[str, Any]) -> list[str]:
    """What stands below the table: the paper's figures, the sets, and why records are out."""
    below = []
    for name, said in found["paper"]["databases"].items():
        if name in found["hospitals"]:
            sex, ages = said["sex"], said["ages"]
            below.append(f"{name} in the REAN paper: {said['patients']} patients, {sex['M']} men, "
                         f"{sex['F']} women, {ages[0]} to {ages[1]} years; {said['remark']}")
    below.append("Sets of the paper that these windows give (n, patients, men / women, classes):")
    for name, one in found["sets"].items():
        classes = ", ".join(f"{label} {count:,}" for label, count in one["classes"].items())
        below.append(f"  {name}: {one['windows']:,} windows, {one['patients']} patients, "
                     f"{one['men']:,} / {one['women']:,}, {classes}")
    for hospital, fact in found["hospitals"].items():
        below += [f"{hospital} left out: {why}" for why in fact["records_left_out"].values()]
    return below
