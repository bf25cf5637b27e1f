"""DP-SGD that protects one window: Opacus's per-sample gradients with cryptographic noise.

Per step the caller draws a Poisson batch (`noise.poisson_indices`), then runs forward and backward
of the *mean* loss over that batch, or `skip_forward` if it is empty, and steps in either case.
The sum of the clipped gradients plus N(0, (sigma * clip)^2) is divided by the public expected
batch, never by the realised count. This bounds nothing per patient.

Importing this module imports Opacus, which takes seconds: import it where training starts.
"""

from __future__ import annotations

import math
import warnings

from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from opacus.validators import ModuleValidator
from torch import Tensor, nn
from torch.optim import Optimizer

from common.errors import InputError
from common.privacy.noise import Gaussian, standard_gaussian

# Opacus hooks the first layer, whose input needs no gradient; torch warns of that at every step.
warnings.filterwarnings("ignore", message="Full backward hook is firing")


class PrivateStep(DPOptimizer):  # type: ignore[misc]  # opacus ships no types
    """Opacus's DPOptimizer with noise from a ChaCha20 keystream instead of torch's generator.

    Its own secure mode needs torchcsprng, which can no longer be installed.
    """

    gaussian: Gaussian = staticmethod(standard_gaussian)

    def add_noise(self) -> None:
        """Set each gradient to its clipped sum plus N(0, (sigma * clip)^2) per coordinate."""
        scale = float(self.noise_multiplier) * float(self.max_grad_norm)
        for parameter in self.params:
            _check_processed_flag(parameter.summed_grad)
            total: Tensor = parameter.summed_grad
            if scale > 0:
                noise = self.gaussian(total.shape, total.device)
                total = total + (noise * scale).to(total.dtype)
            parameter.grad = total.clone().view_as(parameter)
            _mark_as_processed(parameter.summed_grad)


def privatise(
    module: nn.Module, optimizer: Optimizer, *, sigma: float, clip: float, expected_batch: float,
    gaussian: Gaussian = standard_gaussian
) -> tuple[GradSampleModule, PrivateStep]:
    """Wrap a model and its optimizer for window-level DP-SGD (Abadi et al. 2016, hooks mode).

    The model is hooked in place; frozen parameters stay frozen. Each step follows exactly one
    backward (or `skip_forward`): Opacus refuses to accumulate over several.

    Args:
        module: the model, in train mode and without batch statistics (GroupNorm, not BatchNorm).
        optimizer: an optimizer over parameters of `module` only.
        sigma: noise standard deviation over `clip` (no unit), at least 0; 0 adds no noise.
        clip: largest L2 norm of one window's gradient, above 0.
        expected_batch: the public q * n in windows, above 0 and not necessarily whole.
        gaussian: where noise comes from.

    Returns:
        The hooked module and the private optimizer, to use instead of the arguments.

    Raises:
        InputError: a number is out of range, or the model or its optimizer is not supported.
    """
    if not (math.isfinite(sigma) and sigma >= 0):
        raise InputError(f"sigma is {sigma}; it must be finite and at least 0")
    for name, value in (("clip", clip), ("expected_batch", expected_batch)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value}; it must be finite and above 0")
    _check_module(module, optimizer)
    try:
        private = GradSampleModule(module, loss_reduction="mean", strict=True)
    except (NotImplementedError, ValueError) as error:
        raise InputError(f"{type(module).__name__} cannot be private: {error}") from error
    private.forbid_grad_accumulation()
    step = PrivateStep(  # its loss_reduction is "mean" by default: over the expected batch
        optimizer, noise_multiplier=sigma, max_grad_norm=clip, expected_batch_size=expected_batch
    )
    step.gaussian = gaussian
    return private, step


def skip_forward(private_module: nn.Module) -> None:
    """Stand in for forward and backward on an empty Poisson batch.

    Every trainable parameter gets per-sample gradients of zero windows, so that the following
    step still adds noise, moves the weights and is accounted.

    Raises:
        InputError: if per-sample gradients are already there (call `zero_grad` after each step).
    """
    trainable = [p for p in private_module.parameters() if p.requires_grad]
    if any(getattr(p, "grad_sample", None) is not None for p in trainable):
        raise InputError("grad_sample is already set; call zero_grad() before an empty batch")
    for parameter in trainable:
        parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))  # type: ignore[attr-defined]


def _check_module(module: nn.Module, optimizer: Optimizer) -> None:
    """Raise InputError, with the reasons, unless Opacus can train the module's parameters."""
    name = type(module).__name__
    errors = ModuleValidator.validate(module, strict=False)
    if errors:
        reasons = "; ".join(str(error) for error in errors)
        raise InputError(f"{name} cannot be private: {reasons}")
    known = {id(p) for p in module.parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not held:
        raise InputError(f"{name}'s optimizer holds no trainable parameter; it needs at least one")
    if any(id(p) not in known for p in held):
        raise InputError(f"{name}'s optimizer holds parameters of another module; allowed: its own")
