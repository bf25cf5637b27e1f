"""What the canaries of all hospitals prove together, and whether an account is refuted by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.privacy.lower_bound import epsilon_lower_bound

Accounts = Mapping[str, Mapping[str, Any]]


def lower_bound(accounts: Accounts) -> dict[str, Any]:
    """Of the hospital that spent most, by all canaries; {} without any.

    Each hospital fixed in advance how many it guesses, so that all guesses are one attack.

    Args:
        accounts: of the hospitals, by site.
    """
    found = [account["canaries"] for account in accounts.values() if "canaries" in account]
    if not found:
        return {}
    correct, guesses, count = (sum(one[key] for one in found)
                               for key in ("correct", "guesses", "count"))
    confidence = found[0]["confidence"]
    delta = max(account["delta"] for account in accounts.values())
    return {"epsilon": epsilon_lower_bound(correct, guesses, count, delta, confidence),
            "correct": correct, "guesses": guesses, "count": count, "confidence": confidence}


def refuted(accounts: Accounts, together: Mapping[str, Any]) -> list[str]:
    """A line for each lower bound above its account: a bug, or chance."""
    claims = {site: (account["lower_bound"], account["patient"])
              for site, account in accounts.items() if "lower_bound" in account}
    if together and len(claims) == len(accounts):
        claims["all hospitals"] = together["epsilon"], max(claim for _, claim in claims.values())
    return [f"the account of {site} is refuted: canaries prove an epsilon of at least {low:.3f}, "
            f"and it claims {claimed:.3f}; by chance this is seen once in twenty runs, and "
            "otherwise the mechanism is broken"
            for site, (low, claimed) in claims.items() if low > claimed]
