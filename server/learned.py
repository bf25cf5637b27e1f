"""Networks that did not learn: their low leakage or utility says nothing, so reports name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.results import Estimate

FEW = 20  # windows, below which a share says little
LEARNED = {"reid": 0.5, "sex": 0.6, "age": 0.4, "macro_auroc": 0.8}  # below: called out


def not_learned(attackers: Mapping[str, Mapping[str, Any]],
                diagnoses: Mapping[str, Estimate]) -> list[str]:
    """A line for each network that is too weak on clean windows to be a witness.

    Args:
        attackers: name -> its "reid", "sex" and "age" on clean windows.
        diagnoses: name -> macro-AUROC of a diagnosis network on clean windows.
    """
    lines = [f"{who} reaches {what} {row[what].value:.3f} on clean windows (below "
             f"{LEARNED[what]}): a low figure on released windows would overstate privacy"
             for who, row in attackers.items() for what in ("reid", "sex", "age")
             if not row[what].value >= LEARNED[what]]
    return lines + [f"the {who} diagnosis network reaches macro-AUROC {leaf.value:.3f} on clean "
                    f"windows (below {LEARNED['macro_auroc']}): it cannot judge utility"
                    for who, leaf in diagnoses.items()
                    if not leaf.value >= LEARNED["macro_auroc"]]


def unlike(identification: Mapping[str, Any]) -> list[str]:
    """A line for each embedding in which clean windows of a person do not lie together.

    Args:
        identification: metrics of the attack, as read from its file.
    """
    return [f"{encoder} embeddings name {pairs['clean']['top1']['value']:.3f} of the clean windows "
            f"({protocol}; below {LEARNED['reid']}): a low figure on released windows would "
            "overstate privacy"
            for protocol, encoders in identification.items() for encoder, pairs in encoders.items()
            if pairs["clean"]["top1"]["n"] >= FEW
            and pairs["clean"]["top1"]["value"] < LEARNED["reid"]]
