"""Patient-level DP-SGD: against Opacus at sigma 0, the bound on a patient, the noise."""

import pytest
import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn

from common.errors import InputError
from common.models.verifier import verification_loss
from common.privacy.patient_dp import PatientSum, largest_move

CLIP, EXPECTED = 0.3, 2.7
OWNERS = [0, 0, 0, 1, 2, 2, 3]


def model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(),
                         nn.Linear(24, 3))


def windows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    return torch.randn(7, 2, 8), torch.arange(7) % 3, torch.tensor(OWNERS)


def each() -> list[dict[str, torch.Tensor]]:
    x, y, owner = windows()
    return [{"x": x[owner == i], "y": y[owner == i]} for i in owner.unique()]


def loss(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(network(batch["x"]), batch["y"], reduction="none")


def opacus_step(clip: float) -> list[torch.Tensor]:
    """Opacus's own clipping and mean, once its per-window gradients are patients' means."""
    net = model()
    wrapped = GradSampleModule(net, loss_reduction="sum")
    optimizer = DPOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), noise_multiplier=0.0,
                            max_grad_norm=clip, expected_batch_size=1)
    x, y, owner = windows()
    nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()
    for p in net.parameters():
        p.grad_sample = torch.stack([p.grad_sample[owner == i].mean(0) for i in owner.unique()])
    optimizer.pre_step()
    return [p.grad / EXPECTED for p in net.parameters()]


@pytest.mark.parametrize("clip", [CLIP, 0.01, 100.0])
def test_a_step_is_opacuss_at_sigma_0(clip: float) -> None:
    net = model()
    total = PatientSum(net, clip)
    for batch in each():
        total.add(loss(net, batch))
    total.release(0.0, EXPECTED)
    for p, wanted in zip(net.parameters(), opacus_step(clip), strict=True):
        torch.testing.assert_close(p.grad, wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("windows_of_one", [1, 50])
def test_a_patient_moves_the_sum_by_the_clip_however_many_windows(windows_of_one: int) -> None:
    net = model()
    total = PatientSum(net, CLIP)
    x = 100 * torch.randn(windows_of_one, 2, 8)
    total.add(loss(net, {"x": x, "y": torch.zeros(windows_of_one, dtype=torch.long)}))
    norm = torch.cat([t.flatten() for t in total.total]).norm()
    assert 0.99 * CLIP < norm <= CLIP


def test_an_empty_step_is_noise_and_the_noise_has_its_size() -> None:
    net = nn.Linear(200, 200)
    PatientSum(net, CLIP).release(2.0, EXPECTED)
    assert net.weight.grad is not None
    assert float(net.weight.grad.std()) == pytest.approx(2.0 * CLIP / EXPECTED, rel=0.03)


def test_two_steps_share_nothing() -> None:
    net = model()
    total = PatientSum(net, CLIP)
    total.add(loss(net, each()[0]))
    total.release(0.0, 1.0)
    total.release(0.0, 1.0)
    assert all(not p.grad.any() for p in net.parameters() if p.grad is not None)


def test_a_gradient_that_is_not_finite_adds_nothing() -> None:
    net = model()
    total = PatientSum(net, CLIP)
    total.add(loss(net, {"x": torch.full((1, 2, 8), torch.nan), "y": torch.zeros(1).long()}))
    assert all(not t.any() for t in total.total)


def test_frozen_layers_take_no_part() -> None:
    net = model()
    net[0].requires_grad_(False)
    total = PatientSum(net, CLIP)
    total.add(loss(net, each()[0]))
    total.release(1.0, 1.0)
    assert net[0].weight.grad is None and net[4].weight.grad is not None


def test_the_checker_passes_what_is_per_patient() -> None:
    assert 0 < largest_move(model(), each(), loss, CLIP) <= CLIP * (1 + 1e-5)


def test_the_checker_finds_a_patient_who_moves_others() -> None:
    """Clipped each, but a memory of earlier patients is in the loss of the later ones."""
    memory: list[torch.Tensor] = []

    def with_memory(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if len(memory) > 50:
            memory.clear()
        memory.append(batch["x"].mean())
        return loss(network, {**batch, "x": batch["x"] + 3 * torch.stack(memory[-3:]).sum()})

    people = [{"x": batch["x"] * (i + 1), "y": batch["y"]} for i, batch in enumerate(each())]
    assert largest_move(model(), people, with_memory, CLIP) > 1.2 * CLIP


def test_negatives_within_the_step_are_found_and_public_ones_are_not() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8))
    public, people = torch.randn(5, 2, 8), each()
    seen: list[torch.Tensor] = []

    def of_the_step(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(batch["x"])
        return verification_loss(network, batch["x"], torch.cat([*seen[-2:-1], public[:1]]))

    def of_the_public(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return verification_loss(network, batch["x"], public)

    assert largest_move(net, people, of_the_public, CLIP) <= CLIP * (1 + 1e-5)
    assert largest_move(net, people, of_the_step, CLIP) > 1.05 * CLIP


def test_bad_input() -> None:
    with pytest.raises(InputError, match="clip is 0"):
        PatientSum(model(), 0)
    with pytest.raises(InputError, match="layer 1 is BatchNorm1d"):
        PatientSum(nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)), 1.0)
    with pytest.raises(InputError, match="0 trainable parameters"):
        PatientSum(model().requires_grad_(False), 1.0)
