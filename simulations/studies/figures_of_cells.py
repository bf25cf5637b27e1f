"""What a finished run says in a row of a grid: privacy spent, diagnosis, leakage."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from common.results import Estimate

Leaf = dict[str, Any]
NOTHING: Leaf = Estimate(float("nan"), float("nan"), float("nan"), 0).as_dict()
# Figure -> how it is headed.
FIGURES = {
    "diagnosis": "macro-AUROC, clean windows", "released": "macro-AUROC, released windows",
    "independent": "macro-AUROC, released, independent network",
    "reid": "ReID, attacker trained on clean", "retrained": "ReID, attacker retrained",
    "signal": "ReID, training signal", "clean_reid": "ReID of clean windows, same attacker",
    "prd": "PRD, %", "membership": "membership TPR", "membership_auc": "membership AUC"}
_FPR = 0.1  # of the membership TPR, or the lowest that the number of non-members allows


def figures(metrics: Mapping[str, Any]) -> dict[str, Leaf]:
    """FIGURES of a run's metrics.json; `NOTHING` where it was not measured."""
    clean, rean = metrics["clean"], metrics["anonymizers"]["rean"]
    member = metrics.get("membership", {}).get("diagnosis", {}).get("loss", {}).get("patient", {})
    found = {
        "diagnosis": clean.get("macro_auroc"), "released": rean.get("macro_auroc"),
        "independent": rean.get("independent", {}).get("macro_auroc"),
        "reid": rean["reid"], "retrained": rean["retrained"]["100"]["resnet1d"]["reid"],
        "signal": rean["training_signal"]["reid"], "clean_reid": clean["reid"],
        "prd": rean.get("prd"), "membership": _tpr(member), "membership_auc": member.get("auc")}
    return {name: leaf or NOTHING for name, leaf in found.items()}


def _tpr(member: Mapping[str, Any]) -> Leaf | None:
    """True positive rate at a tenth of false ones, or at the lowest that can be seen."""
    points = member.get("at", [])
    if not points:
        return None
    best = min(points, key=lambda point: abs(point["at"] - _FPR))
    return {**best["tpr"], "chance": best["at"]}


def spent(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Largest epsilon over the hospitals, per window and per patient; None: not bounded.

    `lower` is the largest lower bound that canaries proved, where there were any.
    """
    accounts = list(metrics["privacy"].values())

    def largest(key: str) -> float | None:
        values = [account.get(key) for account in accounts]
        known = [float(v) for v in values if isinstance(v, int | float)]
        return max(known) if known and len(known) == len(values) else None

    return {"window": largest("epsilon"), "patient": largest("patient"),
            "lower": largest("lower_bound")}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows as CSV: what varies, epsilons, and value, low, high, n, chance of each figure."""
    varying = list(dict.fromkeys(key for row in rows for key in row["varies"]))
    names = [*varying, *("epsilon per window", "epsilon per patient", "epsilon, lower bound"),
             *(f"{name} {part}" for name in FIGURES for part in NOTHING), "seconds", "problem"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        leaves = row.get("figures") or dict.fromkeys(FIGURES, NOTHING)
        epsilons = row.get("spent") or dict.fromkeys(("window", "patient", "lower"))
        writer.writerow([*(row["varies"].get(key, "") for key in varying), *(
            "" if value is None else value for value in (
                *epsilons.values(),
                *(leaves[name][part] for name in FIGURES for part in NOTHING)))
            , row.get("seconds", ""), row.get("problem", "")])
    return out.getvalue()
