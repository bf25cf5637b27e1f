"""Windows out of one update of the diagnosis model, without privacy and with it per window.

What is attacked is the gradient of one step, as a round of one step would show it. "first" are the
weights that the server draws before the first round, "last" the trained ones; "easy" is a small
perceptron of which it is known that it can be inverted, to show that the attack works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.audits import gradient_inversion as attack
from common.audits import inversion
from common.audits.gradient_inversion import Effort
from common.audits.inversion import Prior
from common.audits.reconstruction import batches, likeness
from common.audits.reidentification import closed_set
from common.config import Settings
from common.ecg.labels import decided
from common.models.classifier import build, load_shared
from common.models.files import load_state
from common.privacy.accounting import calibrate
from common.protocol import ARRHYTHMIA_CLASSES, STAGES
from common.results import mean_estimate
from common.training import device_of, sampling, seed_from, shifted
from server.attackers import Attacker
from server.attacks.case import Case
from server.attacks.gradient_linkage import Victim, linked
from server.attacks.model_inversion import judge_of
from server.bundles import Bundles

Ints = NDArray[np.int64]

SIZES = {1: 8, 8: 2}  # windows of a batch -> updates that are attacked
WEAK = 1e-3  # of the noise of the privacy target: how little is enough?
SHARE = 0.3  # of `audit.steps`: a larger profile tries harder
_KNOWN = 400  # windows of other people that the attacker has


@dataclass(frozen=True)
class Updates:
    """Batches of one size, and what an attacker knows of ECGs without their patients.

    Args:
        x: what the hospitals trained on, (T, B, leads, L).
        label: classes, (T, B).
        patient: [T, B].
        others: rows of the bundles, of other people, [T, 4, B].
        prior: a row for each batch.
    """

    x: Tensor
    label: Tensor
    patient: Ints
    others: Ints
    prior: Prior


def gradient_inversion(case: Case) -> dict[str, Any]:
    """Per model, protection and batch: correlation and PRD with what was trained on, and identity.

    Nothing, where no model was trained or no window has a decided class.
    """
    bundles, judge = case.bundles, judge_of(case)
    rows = np.flatnonzero((bundles.part == 0) & ~bundles.reserved & (decided(bundles.allowed) >= 0))
    if case.models is None or not len(rows):
        return {}
    sigma = noise_multiplier(bundles, case.settings)
    victims = _victims(case, sigma)
    tree: dict[str, Any] = {"sigma": sigma, "weak": WEAK * sigma,
                            "epsilon": case.settings.privacy.epsilon, "rows": {},
                            "linked": linked(case, rows, victims)}
    arrays: dict[str, NDArray[Any]] = {}
    for size, count in SIZES.items():
        made = drawn(case, rows, size, count)
        arrays |= {f"target-{size}": made.x.cpu().numpy(), f"patient-{size}": made.patient}
        for name, network, clip, noise in victims:
            found, label = _inverted(case, made, f"{name}-{size}", network, clip, noise)
            arrays[f"{name}-{size}"] = found
            model, _, protection = name.partition("-")
            branch = tree["rows"].setdefault(model, {}).setdefault(protection, {})
            branch[str(size)] = _row(bundles, judge, made, found, label)
        tree["rows"].setdefault("real", {}).setdefault("none", {})[str(size)] = {
            "identified": _identified(judge, made.x.cpu().numpy(), made.patient)}
    part = case.folder / "inversion-gradient.part.npz"
    np.savez(part, **arrays)  # type: ignore[arg-type]
    part.replace(case.folder / "inversion-gradient.npz")
    return tree


def noise_multiplier(bundles: Bundles, settings: Settings) -> float:
    """Of a window-private run of these settings, in the hospital that has the most windows.

    Computed as the hospital does it, for the diagnosis network, over all stages and rounds.
    """
    largest = int(np.argmax(np.bincount(bundles.hospital)))
    rows = (bundles.hospital == largest) & (bundles.part == 0) & ~bundles.reserved
    informative = {"diagnosis": bundles.allowed != (1 << len(ARRHYTHMIA_CLASSES)) - 1,
                   "sex": bundles.sex >= 0, "age": bundles.age >= 0}
    plan, split = [], settings.privacy.split
    for stage in STAGES:
        n, training = int(np.sum(rows & informative.get(stage, True))), settings.stage(stage)
        if n:
            q, steps = sampling(n, training)
            plan.append((q, steps * training.rounds, split[stage]))
    return calibrate(plan, settings.privacy.epsilon, settings.privacy.delta) / math.sqrt(
        split["diagnosis"])


def drawn(case: Case, rows: Ints, size: int, count: int) -> Updates:
    """Batches of one hospital each, the hospitals in turn; rotated, as in training."""
    bundles, device = case.bundles, device_of(case.settings.device)
    generator = np.random.default_rng(seed_from(case.settings, "auditor", "updates", size))
    places = np.unique(bundles.hospital[rows])
    chosen, others, priors = [], [], []
    for number in range(count):
        mine = rows[bundles.hospital[rows] == places[number % len(places)]]
        batch = generator.choice(mine, size, replace=len(mine) < size)
        away = np.flatnonzero(~np.isin(bundles.patient, bundles.patient[batch]))
        away = away if len(away) else rows
        known = generator.choice(away, min(len(away), _KNOWN), replace=False)
        chosen.append(batch)
        others.append(generator.choice(known, (4, size)))
        priors.append(inversion.prior_of(torch.from_numpy(bundles.clean[known]).to(device),
                                         aligned=False))
    at = np.stack(chosen)
    x = shifted({"x": torch.from_numpy(bundles.clean[at.ravel()])}, generator)["x"]
    return Updates(x.reshape(count, size, *x.shape[1:]).to(device),
                   torch.from_numpy(decided(bundles.allowed)[at]).to(device),
                   bundles.patient[at], np.stack(others), inversion.stacked(priors))


def _victims(case: Case, sigma: float) -> list[Victim]:
    """(name, network, clipping norm or None, noise multiplier) of each kind of update."""
    settings, leads = case.settings, case.bundles.clean.shape[1]
    clip, device = settings.privacy.clip, device_of(settings.device)
    # The server draws these weights and sends them, so it knows them.
    first = build("diagnosis", settings, leads, 2, seed_from(settings, "server", "diagnosis"))
    torch.manual_seed(seed_from(settings, "auditor", "easy"))
    easy = nn.Sequential(nn.Flatten(), nn.Linear(leads * case.bundles.clean.shape[2], 32),
                         nn.Sigmoid(), nn.Linear(32, len(ARRHYTHMIA_CLASSES)))
    victims: list[Victim] = [
        (f"{name}-{kind}", network, norm, noise)
        for name, network in (("easy", easy), ("first", first))
        for kind, norm, noise in (("none", None, 0.0), ("weak", clip, WEAK * sigma),
                                  ("window", clip, sigma))]
    assert case.models is not None
    file = case.models / "diagnosis.safetensors"
    if file.exists():
        last = build("diagnosis", settings, leads, 2, 0)
        load_shared("diagnosis", last, load_state(file))
        victims.append(("last-none", last, None, 0.0))
    return [(name, network.to(device).eval(), c, s) for name, network, c, s in victims]


def _inverted(case: Case, made: Updates, name: str, network: nn.Module, clip: float | None,
              sigma: float) -> tuple[NDArray[np.float32], Ints]:
    """Windows found and the labels inferred, (T, B, leads, L) and [T, B]; kept for a resumption."""
    kept = case.folder / f"inversion-{name}.npz"
    if not kept.exists():
        case.progress(f"inverting updates: {name}")
        generator = torch.Generator().manual_seed(
            seed_from(case.settings, "auditor", "gradient", name))
        seen = (attack.updates(network, made.x, made.label) if clip is None else
                attack.private_updates(network, made.x, made.label, clip, sigma, generator))
        label = _labels(network, [part.detach() for part in seen], made, clip, generator)
        effort = Effort(steps=max(1, round(SHARE * case.settings.audit.steps)))
        found = attack.reconstruct(network, seen, label, made.prior, effort, generator, clip)
        part = kept.with_suffix(".part.npz")
        np.savez(part, found=found.cpu().numpy(), label=label.cpu().numpy())
        part.replace(kept)
    with np.load(kept) as loaded:
        return np.asarray(loaded["found"]), np.asarray(loaded["label"])


def _labels(network: nn.Module, seen: list[Tensor], made: Updates, clip: float | None,
            generator: torch.Generator) -> Tensor:
    """Inferred from the last bias, on windows that could be anyone's, (T, B)."""
    batch, device = made.x.shape[1], made.x.device
    noise = torch.randn((16, *made.prior.mean.shape), generator=generator).to(device)
    guess = inversion.unit(made.prior.signal(noise)).transpose(0, 1)  # (T, 16, leads, L)
    with torch.no_grad():
        logits = network(guess.flatten(0, 1)).reshape(*guess.shape[:2], -1)
    probability = logits.softmax(2).mean(1)  # (T, C)
    scale = torch.ones(len(guess), device=device)
    if clip is not None:  # clipped gradients are shorter; by how much, other windows tell
        scale = attack.clipping(network, guess, logits.argmin(2), clip).mean(1)
    return torch.stack([attack.labels_of(bias / by, p, batch) for bias, by, p in
                        zip(seen[-1], scale, probability, strict=True)])


def _row(bundles: Bundles, judge: Attacker, made: Updates, found: NDArray[np.float32],
         label: Ints) -> dict[str, Any]:
    targets = made.x.cpu().numpy()
    # Reconstructions come in no order: each is given to the target that it is most like.
    found = np.stack([b[likeness(a, b).found] for a, b in zip(targets, found, strict=True)])
    others = [[bundles.clean[batch] for batch in many] for many in made.others]
    right = [np.minimum(np.bincount(a, minlength=9), np.bincount(b, minlength=9)).sum() / len(a)
             for a, b in zip(made.label.cpu().numpy(), label, strict=True)]
    return {**batches(list(targets), list(found), others, list(made.patient)),
            "identified": _identified(judge, found, made.patient),
            "labels": mean_estimate(np.array(right), made.patient[:, 0],
                                    chance=None)}


def _identified(judge: Attacker, windows: NDArray[np.float32], patient: Ints) -> Any:
    who = patient.ravel()
    return closed_set(judge.answers(windows.reshape(-1, *windows.shape[2:]))["reid"], who, who)
