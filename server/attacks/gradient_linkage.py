"""Whose window is behind an update of one? Asked of the same networks as gradient inversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.audits import gradient_inversion as attack
from common.audits import gradient_linkage as linkage
from common.audits.reidentification import closed_set
from common.ecg.labels import decided
from common.results import Estimate
from common.training import device_of, seed_from, shifted
from server.attacks.case import Case

Ints = NDArray[np.int64]
Victim = tuple[str, nn.Module, float | None, float]

_EACH = 2  # updates of a patient
_KNOWN = 5  # other windows of each that the attacker holds
_PEOPLE = 100  # at most


@dataclass(frozen=True)
class Link:
    """Updates of one window each, and windows that their owners are known by.

    Args:
        people: candidates.
        x, label, owner: of the updates; owner indexes `people`.
        known, known_owner: clean windows, other than those of the updates.
    """

    people: Ints
    x: Tensor
    label: Tensor
    owner: Ints
    known: Tensor
    known_owner: Tensor


def linked(case: Case, rows: Ints, victims: list[Victim]) -> dict[str, Any]:
    """Share of updates whose patient is named, per model and protection.

    Args:
        case: of the audit.
        rows: of the bundles, that hospitals trained on, with a decided class.
        victims: (model-protection, network, clipping norm or None, noise multiplier).
    """
    link = _link(case, rows)
    if len(link.people) < 2:
        return {}
    templates: dict[tuple[str, int], Tensor] = {}
    tree: dict[str, Any] = {}
    for name, network, clip, sigma in victims:
        case.progress(f"linking updates: {name}")
        model, _, protection = name.partition("-")
        generator = torch.Generator().manual_seed(
            seed_from(case.settings, "auditor", "linkage", name))
        seen = (attack.updates(network, link.x, link.label) if clip is None else
                attack.private_updates(network, link.x, link.label, clip, sigma, generator))
        label = seen[-1].argmin(1)
        found = torch.zeros(len(label), len(link.people))
        for one in sorted(set(label.tolist())):
            if (model, one) not in templates:
                templates[model, one] = linkage.templates(
                    network, link.known, link.known_owner, torch.arange(len(link.people)), one)
            these = label == one
            found[these.cpu()] = linkage.scores(linkage.flat([p[these] for p in seen]),
                                                templates[model, one]).cpu()
        tree.setdefault(model, {})[protection] = _rate(found, link)
    return tree


def _rate(scores: Tensor, link: Link) -> Estimate:
    return closed_set(scores.double().numpy(), link.owner, link.people[link.owner])


def _link(case: Case, rows: Ints) -> Link:
    bundles, device = case.bundles, device_of(case.settings.device)
    generator = np.random.default_rng(seed_from(case.settings, "auditor", "linkage"))
    of = {one: generator.permutation(rows[bundles.patient[rows] == one])
          for one in np.unique(bundles.patient[rows])}
    people = np.array([one for one, mine in of.items() if len(mine) > _EACH][:_PEOPLE],
                      dtype=np.int64)
    updates = np.concatenate([np.zeros(0, np.int64), *(of[one][:_EACH] for one in people)])
    known = np.concatenate([np.zeros(0, np.int64),
                            *(of[one][_EACH : _EACH + _KNOWN] for one in people)])

    def windows(at: Ints) -> Tensor:
        x = {"x": torch.from_numpy(bundles.clean[at])}
        return (shifted(x, generator)["x"] if len(at) else x["x"]).to(device)

    return Link(people, windows(updates)[:, None],
                torch.from_numpy(decided(bundles.allowed)[updates])[:, None].to(device),
                np.searchsorted(people, bundles.patient[updates]), windows(known),
                torch.from_numpy(np.searchsorted(people, bundles.patient[known])))
