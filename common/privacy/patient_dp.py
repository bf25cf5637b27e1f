"""DP-SGD whose unit is the patient: one clipped gradient a patient, whatever he has of windows.

A step, over Poisson-sampled patients: the mean loss over some of a patient's windows gives one
gradient; it is clipped to C; the sum gets N(0, (sigma C)^2) and is divided by a public number.
Source: McMahan et al. (2018), "Learning Differentially Private Recurrent Language Models"
(user-level DP-SGD); Abadi et al. (2016) for the mechanism and its name of clipping.

Patients go through the network one after the other (a microbatch each), which costs no per-sample
gradients and makes it plain that none's gradient sees another's windows. `largest_move` proves it
for a loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from common.errors import InputError
from common.privacy.noise import Gaussian, standard_gaussian

Batch = dict[str, Tensor]  # of one patient, windows first
PatientLoss = Callable[[nn.Module, Batch], Tensor]  # loss of each window, (W,)


class PatientSum:
    """The clipped sum of patients' gradients of one step.

    Args:
        network: whose trainable parameters are summed over.
        clip: largest L2 norm of one patient's gradient, C, above 0.
        gaussian: where noise comes from.

    Raises:
        InputError: clip is out of range, nothing is trainable, or a layer keeps batch statistics,
            which would leave the hospital without noise.
    """

    def __init__(self, network: nn.Module, clip: float,
                 gaussian: Gaussian = standard_gaussian) -> None:
        if not (math.isfinite(clip) and clip > 0):
            raise InputError(f"clip is {clip}; it must be finite and above 0")
        for name, layer in network.named_modules():
            if isinstance(layer, nn.modules.batchnorm._NormBase):
                raise InputError(f"layer {name} is {type(layer).__name__}, which mixes patients; "
                                 "allowed: GroupNorm, LayerNorm")
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        if not self.parameters:
            raise InputError(f"{type(network).__name__} has 0 trainable parameters; at least 1 "
                             "is needed")
        self.clip, self.gaussian = clip, gaussian
        self._begin()

    def _begin(self) -> None:
        """A sum of nobody: one vector, of which each parameter's part is a view."""
        sizes = [p.numel() for p in self.parameters]
        self.total = torch.zeros(sum(sizes), dtype=self.parameters[0].dtype,
                                 device=self.parameters[0].device)  # (d,)
        self._parts = [part.view_as(p) for part, p in zip(torch.split(self.total, sizes),
                                                          self.parameters, strict=True)]

    def add(self, losses: Tensor) -> None:
        """Add one patient: the gradient of the mean of his windows' losses (W,), clipped.

        A gradient that is not finite adds nothing: it has no norm that could be bounded.
        """
        gradients = torch.autograd.grad(losses.mean(), self.parameters, allow_unused=True)
        norm = float(get_total_norm([g for g in gradients if g is not None]))
        if not math.isfinite(norm):
            return
        scale = min(1.0, self.clip / (norm + 1e-6))
        for part, gradient in zip(self._parts, gradients, strict=True):
            if gradient is not None:
                part.add_(gradient, alpha=scale)

    def release(self, sigma: float, expected: float) -> Tensor:
        """Set each parameter's gradient to (sum + noise) / expected, and begin a new sum.

        Args:
            sigma: noise standard deviation over `clip`, at least 0; 0 adds no noise.
            expected: the public q * N in patients, above 0.

        Returns:
            The sum with its noise, (d,).
        """
        if sigma > 0:
            self.total.add_(self.gaussian(self.total.shape, self.total.device).to(
                self.total.dtype), alpha=sigma * self.clip)
        for parameter, part in zip(self.parameters, self._parts, strict=True):
            parameter.grad = part / expected
        released = self.total
        self._begin()
        return released


def largest_move(network: nn.Module, patients: Sequence[Batch], loss: PatientLoss,
                 clip: float) -> float:
    """How far the clipped sum moves, at most, when any one of the patients is removed; L2 norm.

    At most `clip` for a loss that is truly per patient, up to rounding. More means that a patient
    changes what others' gradients are: through negatives within the step, a memory, or statistics
    of the batch. Each patient's own draws (stochastic depth) are the same in all sums, as secret
    independent draws add no sensitivity.

    Args:
        network: in training mode afterwards; its weights and buffers stay.
        patients: what one step would see of each.
        loss: as trained with; it may keep what it likes between calls.
        clip: C.
    """
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}

    def total(left_out: int) -> Tensor:
        network.load_state_dict(before)
        found = PatientSum(network, clip)
        with torch.random.fork_rng(devices=[]):
            for i, batch in enumerate(patients):
                if i != left_out:
                    torch.manual_seed(i)
                    found.add(loss(network, batch))
        return found.total

    whole = total(-1)
    moves = [float(torch.linalg.vector_norm(whole - total(i))) for i in range(len(patients))]
    network.load_state_dict(before)
    return max(moves, default=0.0)
