"""Do privacy and utility pull in different directions, and does it matter that they do?

Source: Ki et al., REAN (arXiv:2607.06037, 2026), section II-B, table I and figure 3, measured with
frozen networks before any anonymizer is trained. Two random vectors of 2000 samples are orthogonal
too, so an angle near 90 degrees proves nothing: figures carry what a random direction gives as
`chance` (1 for the share within 80 to 100 degrees). What can show that the privacy direction is
special is `equal_steps`, the control that the paper lacks: it compares a release of PRD 5.6 % with
Gaussian noise of PRD 24 %. The paper leaves open which windows count; here those of known labels
whose gradients are longer than `FLAT`. All networks are put in evaluation mode, in which none may
let one window influence another's logits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betainc, gammaln
from torch import Tensor, nn

from common.anonymizers.contract import Frozen, Labelled
from common.anonymizers.rean import apply_residual
from common.audits.reidentification import closed_set
from common.audits.utility import Floats, diagnosis
from common.ecg.labels import decided
from common.results import mean_estimate
from common.training import Indices, allowed_loss, masked_loss, predict, shuffled

Networks = Mapping[str, nn.Module]  # "utility" and attributes -> [B, leads, L] to logits

ATTRIBUTES = ("identity", "sex", "age")
FLAT = 1e-5  # nats per unit: below, float32 rounds the softmax of a sure network to noise


def gradients(networks: Networks, x: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of each window's loss with respect to it, each (B, leads, L); "bundled" is eq. 1's sum."""
    found: dict[str, Tensor] = {}
    for name, network in networks.items():
        entry = x.detach().requires_grad_()
        # Without cuDNN: its recurrent layers have no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            logits = network.eval()(entry)
            loss = (allowed_loss(logits, batch["allowed"]) if name == "utility"
                    else masked_loss(logits, batch[name]))
            [found[name]] = torch.autograd.grad(loss.sum(), [entry])
    private = [value for name, value in found.items() if name != "utility"]
    return {**found, "bundled": torch.stack(private).sum(0)}


def cosines(a: Tensor, b: Tensor) -> Floats:
    """Of each pair of gradients, (B, ...) -> (B,); NaN where one of them is flat."""
    a, b = a.flatten(1).double(), b.flatten(1).double()
    lengths = torch.stack([a.norm(dim=1), b.norm(dim=1)])
    value = (a * b).sum(1) / lengths.prod(0)
    return np.asarray(value.masked_fill(lengths.amin(0) < FLAT, torch.nan).cpu().numpy())


def input_angles(frozen: Frozen, data: Labelled,
                 others: Mapping[str, Networks] | None = None) -> dict[str, Any]:
    """Table I: the diagnosis gradient against those of each attacker.

    Args:
        frozen, data: the networks of the training signal, and clean windows [n, leads, L].
        others: name of a backbone -> its attackers by attribute, on the same device.

    Returns:
        "frozen" and each of `others` -> "bundled" and each attribute -> angle (degrees), cosine,
        absolute_cosine, near_orthogonal (share within 80 to 100 degrees), left_out (share that
        takes no part).
    """
    attackers = {"frozen": _networks(frozen), **(others or {})}
    found: dict[str, dict[str, Floats]] = {name: {} for name in attackers}
    for rows, batch in _batches(frozen, data):
        pulls = {name: gradients(nets, batch["x"], batch) for name, nets in attackers.items()}
        useful = pulls["frozen"].pop("utility")
        for name, parts in pulls.items():
            for part, pull in parts.items():
                values = found[name].setdefault(part, np.full(len(data), np.nan))
                values[rows] = cosines(useful, pull)
    return {name: {part: _angles(values, data, attackers[name] if part == "bundled" else [part])
                   for part, values in parts.items()} for name, parts in found.items()}


def _networks(frozen: Frozen) -> Networks:
    return {"utility": frozen.diagnosis, **{name: getattr(frozen, name) for name in ATTRIBUTES}}


def _batches(frozen: Frozen, data: Labelled) -> Iterator[tuple[Indices, dict[str, Tensor]]]:
    device = next(frozen.diagnosis.parameters()).device
    return ((rows, data.batch(rows, device)) for rows in shuffled(len(data), 64, 1, seed=0))


def _known(data: Labelled, names: Iterable[str]) -> NDArray[np.bool_]:
    """Windows of a decided diagnosis of which all these attributes are known, [n]."""
    known: NDArray[np.bool_] = decided(data.allowed.astype(np.uint8)) >= 0
    for name in set(names) - {"utility"}:
        known = known & (getattr(data, name) >= 0)
    return known


def _angles(cosine: Floats, data: Labelled, names: Iterable[str]) -> dict[str, Any]:
    kept, size = _known(data, names) & np.isfinite(cosine), int(np.prod(data.x.shape[1:]))
    value, who = np.clip(cosine[kept], -1, 1), data.patient[kept]
    angle = np.degrees(np.arccos(value))
    # A random direction's squared cosine with a fixed one is Beta(1/2, (size - 1) / 2).
    near = betainc(0.5, (size - 1) / 2, np.sin(np.radians(10)) ** 2)
    mean = np.exp(gammaln(size / 2) - gammaln((size + 1) / 2)) / np.sqrt(np.pi)
    return {"angle": mean_estimate(angle, who, chance=90.0),
            "cosine": mean_estimate(value, who, chance=0.0),
            "absolute_cosine": mean_estimate(abs(value), who, chance=float(mean)),
            "near_orthogonal": mean_estimate(abs(angle - 90) <= 10, who, chance=float(near)),
            "left_out": mean_estimate(~kept, data.patient)}


def parameter_cosines(network: nn.Module, bound: float, frozen: Frozen,
                      data: Labelled) -> dict[str, Any]:
    """Cosines between the losses' gradients with respect to an anonymizer's parameters.

    The paper's figure 3 is in "the classifiers' parameter space", but its four classifiers share
    no parameter: in the space of all of them these cosines are exactly 0. Section III then uses the
    claim for the anonymizer's parameters, which all four losses reach, and so does this function;
    an untrained network with a small bound is closest to the figure's "on clean ECG".

    Args:
        network, bound: [B, leads, L] -> residual before tanh, trainable, and the bound on it.
        frozen, data: the four networks, and windows; an unknown label counts 0, as in REAN's loss.

    Returns:
        "a-b" for each pair of utility, identity, sex and age, and "utility-bundled": the mean over
        batches, which n counts; the interval is over batches, not patients.
    """
    pairs = [*combinations(("utility", *ATTRIBUTES), 2), ("utility", "bundled")]
    found: dict[str, list[float]] = {f"{a}-{b}": [] for a, b in pairs}
    for _, batch in _batches(frozen, data):
        pulls = _parameter_gradients(network, bound, frozen, batch)
        for a, b in pairs:
            found[f"{a}-{b}"] += cosines(pulls[a], pulls[b]).tolist()
    return {name: mean_estimate(kept := np.array(values)[np.isfinite(values)],
                                np.arange(len(kept)), chance=0.0) for name, values in found.items()}


def _parameter_gradients(network: nn.Module, bound: float, frozen: Frozen,
                         batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of each loss, summed over the batch, (1, parameters)."""
    parameters = list(network.parameters())
    released = apply_residual(network.eval()(batch["x"]), batch["x"], bound)
    # The chain rule in two halves: no graph of a classifier outlives its own gradient.
    outward = gradients(_networks(frozen), released, batch)
    return {name: torch.cat([part.flatten() for part in torch.autograd.grad(
        released, parameters, value, retain_graph=True)])[None] for name, value in outward.items()}


def equal_step(x: Tensor, direction: Tensor, share: float) -> Tensor:
    """A step whose L2 norm is a share of the window's: (B, leads, L) -> the same shape."""
    size, length = (torch.linalg.vector_norm(v, dim=(1, 2), keepdim=True) for v in (x, direction))
    out: Tensor = x + direction * (share * size / length)
    return out


def equal_steps(frozen: Frozen, data: Labelled, shares: Sequence[float] = (.01, .02, .05, .1),
                seed: int = 0) -> dict[str, Any]:
    """The causal control: equally long steps up the privacy and utility losses, and at random.

    Args:
        frozen, data: the networks, which also judge, and clean windows, stepped without clipping.
        shares: norm of the step over that of the window.
        seed: of the random directions.

    Returns:
        "clean", and "privacy", "utility", "random" -> share: `diagnosis`'s tree and "identity";
        "left_out": the share of windows that take no part.

    Raises:
        ValueError: no window takes part.
    """
    ways = torch.randn(3, *data.x.shape, generator=torch.Generator().manual_seed(seed))
    for rows, batch in _batches(frozen, data):
        pulls = gradients(_networks(frozen), batch["x"], batch)
        ways[:2, rows] = torch.stack([pulls["bundled"], pulls["utility"]]).cpu()
    taken = _known(data, ATTRIBUTES) & (ways.flatten(2).norm(dim=2) >= FLAT).all(0).numpy()  # (n,)
    if not taken.any():
        raise ValueError(f"{len(data)} windows: none has all its labels and no flat gradient")
    kept, ways = data.select(np.flatnonzero(taken)), ways[:, taken]
    x = torch.from_numpy(kept.x)
    return {"clean": _judge(frozen, kept, x), "left_out": mean_estimate(~taken, data.patient),
            **{name: {f"{share:g}": _judge(frozen, kept, equal_step(x, way, share))
                      for share in shares}
               for name, way in zip(("privacy", "utility", "random"), ways, strict=True)}}


def _judge(frozen: Frozen, data: Labelled, x: Tensor) -> dict[str, Any]:
    diagnosed, identified = (predict(network, x.numpy()).softmax(1).double().numpy()
                             for network in (frozen.diagnosis, frozen.identity))
    return {**diagnosis(diagnosed, data.allowed.astype(np.uint8), data.patient),
            "identity": closed_set(identified, data.identity, data.patient)}
