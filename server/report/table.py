"""The result table and the privacy accounts as text, for the terminal and the page."""

from __future__ import annotations

from typing import Any

HEADER = ("", "ReID", "sex", "age", "arr. acc.", "AUROC frozen", "AUROC indep.", "PRD %")
Leaf = dict[str, Any] | None


def cell(leaf: Leaf, separator: str = " ") -> str:
    """`.123 .100-.150`: value and interval over patients; a dash where nothing was measured."""
    if not leaf or leaf["value"] is None:
        return "-"
    text = _short(leaf["value"])
    if leaf["low"] is not None and leaf["high"] is not None:
        between = "-" if leaf["low"] >= 0 else "\u2009to\u2009"  # thin spaces: a cell has one " "
        text += f"{separator}{_short(leaf['low'])}{between}{_short(leaf['high'])}"
    return text


def prose(leaf: Leaf) -> str:
    """`.123 (.100-.150)`, for a sentence."""
    value, _, interval = cell(leaf).partition(" ")
    return f"{value} ({interval})" if interval else value


def _short(value: float) -> str:
    """Three decimals for a share, two from 1 on, as a table of the field prints them."""
    if abs(value) > 0.9995:
        return f"{value:.2f}"
    return f"{value:.3f}".replace("0.", ".", 1)


def result_rows(metrics: dict[str, Any]) -> list[tuple[str, list[Leaf]]]:
    """(name, leaves in the order of HEADER): the retrained attacker leads, chance closes."""
    rows: list[tuple[str, list[Leaf]]] = []
    for name, row in metrics["anonymizers"].items():
        retrained = row["retrained"]["100"]["resnet1d"]
        rows.append((f"{name}: attacker retrained on releases", _leaks(retrained)))
        rows.append((f"{name}: attacker trained on clean", _leaks(row) + _utility(row)))
        if "training_signal" in row:
            rows.append((f"{name}: training signal (weaker)", _leaks(row["training_signal"])))
    clean = metrics["clean"]
    rows.append(("clean: same attacker", _leaks(clean) + _utility(clean)))
    if "training_signal" in clean:
        rows.append(("clean: training signal", _leaks(clean["training_signal"])))
    guess = [{"value": leaf["chance"] if leaf else None, "low": None, "high": None}
             for leaf in _leaks(clean) + _utility(clean)]
    rows.append(("chance", [leaf if leaf["value"] is not None else None for leaf in guess]))
    return [(name, leaves + [None] * (len(HEADER) - 1 - len(leaves))) for name, leaves in rows]


def _leaks(row: dict[str, Any]) -> list[Leaf]:
    return [row["reid"], row["sex"], row["age"]]


def _utility(row: dict[str, Any]) -> list[Leaf]:
    independent = row.get("independent", {})
    return [row.get("arrhythmia_accuracy"), row.get("macro_auroc"), independent.get("macro_auroc"),
            row.get("prd")]


def accounts(metrics: dict[str, Any]) -> list[str]:
    """One line a hospital: what was spent, per patient and per window."""
    lines = []
    for site, account in metrics["privacy"].items():
        spent = {"patient": account["patient"], "window": account["epsilon"]}
        said = ", ".join(f"per {unit} epsilon {value:.3f}" if isinstance(value, float)
                         else f"per {unit} not bounded" for unit, value in spent.items())
        cap = f", of at most {account['cap']:g} per {account['unit']}" \
            if account["unit"] in spent else ""
        lines.append(f"{site}: {said}{cap}, at delta {account['delta']:g} "
                     f"({account['releases']} releases){_worst(account)}{_proved(account)}")
    if "lower_bound" in metrics:
        found = metrics["lower_bound"]
        lines.append(f"all hospitals' {found['count']} canaries: epsilon of at least "
                     f"{found['epsilon']:.3f} per patient in one of them, with "
                     f"{100 * found['confidence']:g} % confidence")
    return lines


def _worst(account: dict[str, Any]) -> str:
    """The tighter figure, and that of a patient of several hospitals; empty where there are none.
    """
    if "sites" not in account:
        return ""
    several = ", ".join(f"{value:.3f} at {k} hospitals" for k, value in account["sites"].items()
                        if value is not None)
    tight = account["tight"]
    closer = f" {tight['epsilon']:.3f} by {tight['method'].upper()};" if tight["method"] == "prv" \
        else ""
    linked = account.get("linked", 0)
    limit = f"; linkage leaves a patient at {linked} at most, one whom it missed at all of them" \
        if linked else ""
    return f";{closer} of a patient who is at several hospitals that spend alike: {several}{limit}"


def _proved(account: dict[str, Any]) -> str:
    """What canaries of the run say of it."""
    if "lower_bound" not in account:
        return ""
    found = account["canaries"]
    return (f"; at least {account['lower_bound']:.3f} by {found['count']} canaries "
            f"({found['correct']} of {found['guesses']} guesses right, "
            f"{100 * found['confidence']:g} % confidence)")
