"""What the account allows an attacker at most, what canaries proved, and what an attack reached."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from server.report.figures import CLEAN, RELEASED, WARN, svg

Floats = NDArray[np.float64]


def bounds(metrics: dict[str, Any]) -> str:
    """Membership of a patient, as false against true positive rate; empty without an account.

    Under (epsilon, delta) no attack has a true positive rate above e^epsilon FPR + delta, nor above
    1 - e^-epsilon (1 - delta - FPR) (Kairouz, Oh & Viswanath 2015, arXiv:1311.0776). The upper
    curve is that of the hospital that spent most; the lower one that of canaries in the same run.
    """
    accounts = list(metrics["privacy"].values())
    known = [a for a in accounts if isinstance(a["patient"], float) and a["patient"] > 0]
    if not accounts or len(known) < len(accounts):
        return ""
    most = max(known, key=lambda account: account["patient"])
    figure = Figure(figsize=(6, 3.8))
    axes = figure.subplots()
    rate = np.geomspace(1e-3, 1, 200)
    axes.plot(rate, most_at(rate, most["patient"], most["delta"]), color=WARN,
              label=f"account: epsilon {most['patient']:.2f} at most")
    if "lower_bound" in metrics:
        proved = metrics["lower_bound"]
        axes.plot(rate, most_at(rate, proved["epsilon"], most["delta"]), color=RELEASED, ls="--",
                  label=f"canaries: epsilon {proved['epsilon']:.2f} at least "
                        f"({100 * proved['confidence']:g} %)")
    for number, (model, attacks) in enumerate(metrics.get("membership", {}).items()):
        curve = attacks["loss"]["patient"]["roc"]
        if curve["fpr"]:
            axes.step(curve["fpr"], curve["tpr"], where="post", lw=0.9,
                      color=f"C{number}", alpha=0.8, label=f"loss attack on {model}")
    axes.plot(rate, rate, color=CLEAN, lw=0.8, ls=":", label="guessing")
    axes.set(xscale="log", xlim=(1e-3, 1), ylim=(0, 1.02), xlabel="false positive rate, patients",
             ylabel="true positive rate")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(figure)


def most_at(rate: Floats, epsilon: float, delta: float) -> Floats:
    """The largest true positive rate that (epsilon, delta) allows at false positive rates."""
    grow = np.exp(min(epsilon, 500.0))
    most: Floats = np.minimum(grow * rate + delta, 1 - (1 - delta - rate) / grow)
    return most.clip(0.0, 1.0)
