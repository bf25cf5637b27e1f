"""A window that a model calls a patient's, judged by a network that the attack never saw.

Two models are inverted. "head" is the worst case: a classifier of clean windows whose head names
every patient, as the auditor's own does. A federated run lets no identity head out; of its shared
backbone alone nobody's window is better than another's, so there the attacker also holds a stolen
template, a patient's mean embedding, as verification systems keep it ("template").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.audits import inversion
from common.audits.inversion import Draw, Effort, Prior
from common.audits.reconstruction import mean_beats, shapes
from common.audits.reidentification import closed_set
from common.models.classifier import Classifier, build, load_shared
from common.models.files import load_state
from common.results import Estimate
from common.training import predict, seed_from
from server.attackers import Attacker, Windows, train_attacker
from server.attacks.case import Case
from server.bundles import Bundles

Ints = NDArray[np.int64]
Loss = Callable[[Tensor, Tensor], Tensor]

_PEOPLE = 24  # who are attacked, at most
_EACH = 20  # windows of a patient that stand for them
SHARE = 0.4  # of `audit.steps`: a larger profile tries harder


def judge_of(case: Case) -> Attacker:
    """An identity network of another architecture, which no attack may ask."""
    case.progress("training the inversions' judge on clean windows")
    return train_attacker(case.bundles, case.bundles.clean, case.settings,
                          case.folder / "inversion-judge.safetensors",
                          architecture="inception_time")


@dataclass(frozen=True)
class Target:
    """Who is attacked, and what an attacker knows of everybody else.

    Args:
        people: patients under attack.
        shapes: mean beat of every patient, [patients, leads, T]; NaN where unknown.
        window, beat: a prior of each target's windows and beats, made of other people's.
        rate: Hz.
    """

    people: Ints
    shapes: NDArray[np.float64]
    window: Prior
    beat: Prior
    rate: int


def model_inversion(case: Case) -> dict[str, Any]:
    """Per model and form (a free window; one beat that repeats): found, and how like the patient.

    Beside them "nothing", the priors alone, and "real", other windows of the patients themselves.
    """
    judge, target = judge_of(case), targets(case)
    if not len(target.people):
        return {}
    kept = case.folder / "inversion-model.npz"
    if not kept.exists():
        case.progress("inverting models")
        part = kept.with_suffix(".part.npz")
        arrays: dict[str, Any] = {"people": target.people, "shapes": target.shapes,
                                  **_found(case, target)}
        np.savez(part, **arrays)
        part.replace(kept)
    with np.load(kept) as found:
        rows = {name: _judged(judge, target, np.asarray(found[name]))
                for name in found if name not in ("people", "shapes")}
    tree: dict[str, Any] = {}
    for name, row in rows.items():
        model, _, form = name.partition("-")
        tree.setdefault(model, {})[form] = row
    return {**tree, "real": _real(case.bundles, judge, target)}


def targets(case: Case) -> Target:
    """Patients with a mean beat, in training, evenly chosen."""
    bundles, rate = case.bundles, case.settings.profile.sampling_rate
    rows = bundles.rows("train")
    everyone = np.arange(int(bundles.patient.max()) + 1)
    known = mean_beats(bundles.clean[rows], bundles.patient[rows], everyone, rate)
    able = np.flatnonzero(np.isfinite(known).all(axis=(1, 2)))
    if len(able) < 2:  # nobody else to take a prior from
        able = able[:0]
    people = able[np.linspace(0, len(able) - 1, min(len(able), _PEOPLE)).astype(int)]
    priors: dict[str, list[Prior]] = {"window": [], "beat": []}
    sample = _sample(bundles, rows, everyone)
    for one in people:
        others = sample[bundles.patient[sample] != one]
        x = torch.from_numpy(np.array(bundles.clean[others]))
        beats = torch.from_numpy(known[able[able != one]].astype(np.float32))
        priors["window"].append(inversion.prior_of(x, aligned=False))
        priors["beat"].append(inversion.prior_of(beats, aligned=True))
    window, beat = (inversion.stacked(made) if made else Prior(torch.zeros(0), torch.zeros(0))
                    for made in (priors["window"], priors["beat"]))
    return Target(people, known, window, beat, rate)


def _sample(bundles: Bundles, rows: Ints, people: Ints) -> Ints:
    """A few rows of each of these people."""
    return np.concatenate([np.zeros(0, np.int64), *(
        mine[np.linspace(0, len(mine) - 1, min(len(mine), _EACH)).astype(int)]
        for one in people if len(mine := rows[bundles.patient[rows] == one]))])


def _found(case: Case, target: Target) -> dict[str, NDArray[np.float32]]:
    """Signals by "<model>-<form>", and "nothing-<form>": what the priors alone look like."""
    draws = _draws(case, target)
    made = {f"nothing-{form}": prior.signal(0.3 * torch.randn(
        prior.mean.shape, generator=_generator(case, form))).numpy()
        for form, (prior, _) in draws.items()}
    effort = Effort(steps=max(1, round(SHARE * case.settings.audit.steps)))
    for name, (network, loss) in _models(case, target).items():
        network.eval()
        for form, (prior, draw) in draws.items():
            case.progress(f"inverting {name}: {form}")
            made[f"{name}-{form}"] = inversion.invert(
                loss, draw, prior, effort, _generator(case, name + form)).numpy()
    return made


def _draws(case: Case, target: Target) -> dict[str, tuple[Prior, Draw]]:
    length = case.bundles.clean.shape[2]
    generator = _generator(case, "draws")

    def beats(beat: Tensor) -> Tensor:
        onsets = inversion.random_onsets(target.rate, length / target.rate, generator)
        return inversion.in_rhythm(beat, onsets, length)

    return {"window": (target.window, partial(inversion.rotated, generator=generator)),
            "beat": (target.beat, beats)}


def _generator(case: Case, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_from(case.settings, "auditor", "inversion", name))


def _models(case: Case, target: Target) -> dict[str, tuple[nn.Module, Loss]]:
    """Models that a recipient may hold -> (network, loss of windows under their targets)."""
    attacker, people = case.attacker, torch.from_numpy(target.people)
    patients = attacker.sizes[0]

    def named(x: Tensor, which: Tensor) -> Tensor:
        return inversion.margin(attacker(x)[:, :patients], people[which])

    models: dict[str, tuple[nn.Module, Loss]] = {"head": (attacker, named)}
    file = case.models / "identity.safetensors" if case.models else None
    if file and file.exists():
        network = build("identity", case.settings, case.bundles.clean.shape[1], 2, 0)
        load_shared("identity", network, load_state(file))
        assert isinstance(network, Classifier)
        backbone = network.backbone.eval()
        bundles, rows = case.bundles, case.bundles.rows("train")
        template = torch.stack([predict(backbone, bundles.clean[_sample(
            bundles, rows, np.array([one]))]).mean(0) for one in target.people])

        def near(x: Tensor, which: Tensor) -> Tensor:
            return 1 - nn.functional.cosine_similarity(backbone(x), template[which])

        models["template"] = (backbone, near)
    return models


def _judged(judge: Attacker, target: Target, signal: NDArray[np.float32]) -> dict[str, Estimate]:
    """A form's signals: as windows to the judge, and their beats beside the patients'."""
    length = target.window.mean.shape[2]
    if signal.shape[2] == length:
        windows = inversion.unit(torch.from_numpy(signal)).numpy()
        beats = mean_beats(windows, np.arange(len(windows)), np.arange(len(windows)), target.rate)
    else:
        onsets = (torch.arange(-2, 100) * 0.8 * target.rate).round().long()
        windows = inversion.in_rhythm(torch.from_numpy(signal), onsets, length).numpy()
        beats = signal.astype(np.float64)
    return _row(judge, windows, beats, target, target.people)


def _real(bundles: Bundles, judge: Attacker, target: Target) -> dict[str, Estimate]:
    """Test windows of the same people: what a perfect reconstruction would reach."""
    rows = _sample(bundles, bundles.rows("test"), target.people)
    beats = mean_beats(bundles.clean[rows], bundles.patient[rows], target.people, target.rate)
    return _row(judge, bundles.clean[rows], beats, target, bundles.patient[rows])


def _row(judge: Attacker, windows: Windows, beats: NDArray[np.float64], target: Target,
         patient: Ints) -> dict[str, Estimate]:
    return {"identified": closed_set(judge.answers(windows)["reid"], patient, patient),
            **shapes(beats, target.shapes, target.people)}
