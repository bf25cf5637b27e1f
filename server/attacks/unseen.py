"""Attackers of other architectures than the anonymizer was trained against, trained on clean."""

from __future__ import annotations

from typing import Any

from server.attackers import ARCHITECTURES
from server.attacks.case import Case, classified
from server.learned import not_learned


def attack(case: Case) -> dict[str, Any]:
    """Of each network: clean, released -> reid, reid_reserved, sex, age; flags of a weak one.

    Networks of further seeds (`audit.seeds`) are named architecture-1 and so on. They are not
    averaged: the strongest is what counts.
    """
    bundles = case.bundles.of_released()
    found: dict[str, Any] = {}
    for seed in range(case.settings.audit.seeds):
        for architecture in ARCHITECTURES:
            name = f"{architecture}-{seed}" if seed else architecture
            attacker = case.attacker_of(architecture, seed)
            clean = classified(bundles, attacker, bundles.clean)
            found[name] = {"clean": clean,
                           "released": classified(bundles, attacker, bundles.released),
                           "flags": not_learned({name: clean}, {})}
    return found
