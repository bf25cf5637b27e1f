"""Nearest enrolled window: clean probes, released probes, and released against released."""

from __future__ import annotations

from typing import Any

from common.audits.reidentification import identification_rate, protocols
from server.attacks.case import Case


def attack(case: Case) -> dict[str, Any]:
    """Identification rates of each protocol that the recordings allow."""
    bundles = case.bundles
    pairs = {"clean": (case.attacker, bundles.clean, bundles.clean),
             "rean": (case.attacker, bundles.clean, bundles.released),
             "rean_retrained": (case.retrained, bundles.released, bundles.released)}
    found = protocols(bundles.patient, bundles.record, bundles.start, bundles.rows("train"),
                      bundles.rows("test"))
    return {
        protocol: {
            name: identification_rate(network.embed(enrolled[gallery]), bundles.patient[gallery],
                                      network.embed(probes[probe]), bundles.patient[probe])
            for name, (network, enrolled, probes) in pairs.items()}
        for protocol, (gallery, probe) in found.items()}
