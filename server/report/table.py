"""The result table and the privacy accounts as text, for the terminal and the page."""

from __future__ import annotations

from typing import Any

HEADER = ("row", "ReID", "sex", "age", "arr. acc.", "macro-AUROC frozen / independent", "PRD %")


def cell(leaf: dict[str, Any] | None) -> str:
    """`.123 [.100-.150]`, or a dash where nothing was measured."""
    if not leaf or leaf["value"] is None:
        return "-"
    text = f"{leaf['value']:.3f}"
    if leaf["low"] is not None and leaf["high"] is not None:
        text += f" [{leaf['low']:.3f}-{leaf['high']:.3f}]"
    return text


def result_rows(metrics: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: the retrained attacker leads, chance closes."""
    rows: list[tuple[str, ...]] = []
    for name, row in metrics["anonymizers"].items():
        retrained = row["retrained"]["100"]["resnet1d"]
        rows.append(_leak(f"{name}, attacker retrained on it", retrained))
        rows.append(_full(f"{name}, attacker trained on clean", row))
        rows.append(_leak(f"{name}, the training signal (weaker)", row["training_signal"]))
    clean = metrics["clean"]
    rows.append(_full("clean, same attacker", clean))
    rows.append(_leak("clean, the training signal", clean["training_signal"]))
    rows.append(("chance", *(f"{clean[k]['chance']:.3f}" for k in ("reid", "sex", "age")),
                 "", "0.500", ""))
    return HEADER, rows


def _leak(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    return (name, cell(row["reid"]), cell(row["sex"]), cell(row["age"]), "", "", "")


def _full(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    aurocs = f"{cell(row['macro_auroc'])} / {cell(row['independent']['macro_auroc'])}"
    return (*_leak(name, row)[:4], cell(row["arrhythmia_accuracy"]), aurocs,
            f"{row['prd']['value']:.2f}")


def accounts(metrics: dict[str, Any]) -> list[str]:
    """One line a hospital: what was spent, in which unit."""
    lines = []
    for site, account in metrics["privacy"].items():
        spent = account["epsilon"]
        if account["unit"] == "window" and spent is not None:
            lines.append(f"{site}: epsilon {spent:.3f} of {account['cap']:g} per window at delta "
                         f"{account['delta']:g}; patient: not bounded")
        else:
            lines.append(f"{site}: window: not bounded; patient: not bounded "
                         f"({account['releases']} releases without privacy)")
    return lines
