"""Window-level DP-SGD: the clipped mean, the noise on it, empty batches, unsupported models."""

import pytest
import torch
from torch import nn

from common.errors import InputError
from common.privacy.window_dp import PrivateStep, privatise, skip_forward

CLIP = 0.5
EXPECTED = 4.7  # a public q * n, not whole


def model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)
    )


def batch(n: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    return torch.randn(n, 2, 8), torch.arange(n) % 3


def private(sigma: float, clip: float = CLIP) -> tuple[nn.Module, PrivateStep, nn.Module]:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    wrapped, step = privatise(net, optimizer, sigma=sigma, clip=clip, expected_batch=EXPECTED)
    return wrapped, step, net


def brute_force(clip: float) -> list[torch.Tensor]:
    """Per-sample gradients by one backward each, clipped, summed, over the expected batch."""
    net = model()
    total = [torch.zeros_like(p) for p in net.parameters()]
    for x, y in zip(*batch(), strict=True):
        loss = nn.functional.cross_entropy(net(x[None]), y[None])
        grads = torch.autograd.grad(loss, list(net.parameters()))
        norm = torch.stack([g.norm() for g in grads]).norm()
        for out, grad in zip(total, grads, strict=True):
            out += grad * min(1.0, clip / float(norm))
    return [t / EXPECTED for t in total]


@pytest.mark.parametrize("clip", [CLIP, 0.01, 100.0])
def test_gradient_is_the_clipped_mean(clip: float) -> None:
    wrapped, step, net = private(sigma=0.0, clip=clip)
    x, y = batch()
    nn.functional.cross_entropy(wrapped(x), y).backward()
    step.step()
    for p, expected in zip(net.parameters(), brute_force(clip), strict=True):
        torch.testing.assert_close(p.grad, expected, atol=2e-6, rtol=2e-4)
    for p, before, grad in zip(net.parameters(), model().parameters(), brute_force(clip),
                               strict=True):  # fmt: skip
        torch.testing.assert_close(p, before - grad, atol=2e-6, rtol=2e-4)


def test_noise_has_the_right_scale() -> None:
    net = nn.Linear(300, 300)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    wrapped, step = privatise(net, optimizer, sigma=2.0, clip=CLIP, expected_batch=EXPECTED)
    skip_forward(wrapped)
    step.step()
    assert net.weight.grad is not None
    expected = 2.0 * CLIP / EXPECTED
    assert float(net.weight.grad.std()) == pytest.approx(expected, rel=6 / (2 * 90_000) ** 0.5)
    assert abs(float(net.weight.grad.mean())) < 6 * expected / 300


def test_noise_does_not_come_from_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("torch's generator was used")

    monkeypatch.setattr(torch, "normal", forbidden)
    wrapped, step, net = private(sigma=1.0)
    skip_forward(wrapped)
    step.step()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in net.parameters())


def test_empty_batch_steps_and_is_counted() -> None:
    wrapped, step, net = private(sigma=1.0)
    counted: list[int] = []
    step.attach_step_hook(lambda _: counted.append(1))
    for empty in (True, False, True, True):
        before = [p.detach().clone() for p in net.parameters()]
        step.zero_grad()
        if empty:
            skip_forward(wrapped)
        else:
            x, y = batch()
            nn.functional.cross_entropy(wrapped(x), y).backward()
        step.step()
        assert all((p != b).any() for p, b in zip(net.parameters(), before, strict=True))
    assert len(counted) == 4


def test_empty_batch_without_noise_changes_nothing() -> None:
    wrapped, step, net = private(sigma=0.0)
    skip_forward(wrapped)
    step.step()
    for p, before in zip(net.parameters(), model().parameters(), strict=True):
        torch.testing.assert_close(p, before, atol=0, rtol=0)


def test_skip_forward_refuses_gradients_already_there() -> None:
    wrapped, step, _ = private(sigma=1.0)
    skip_forward(wrapped)
    step.step()
    with pytest.raises(InputError, match="zero_grad"):
        skip_forward(wrapped)


def test_two_backwards_for_one_step_are_refused() -> None:
    wrapped, _, _ = private(sigma=1.0)
    x, y = batch()
    nn.functional.cross_entropy(wrapped(x), y).backward()
    with pytest.raises(ValueError, match="accumulation"):
        nn.functional.cross_entropy(wrapped(x), y).backward()


def test_frozen_parameters_stay() -> None:
    net = model()
    for p in net[0].parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=1.0)
    wrapped, step = privatise(net, optimizer, sigma=1.0, clip=CLIP, expected_batch=EXPECTED)
    before = net[0].weight.clone()
    for empty in (False, True):
        step.zero_grad()
        x, y = batch()
        if empty:
            skip_forward(wrapped)
        else:
            nn.functional.cross_entropy(wrapped(x), y).backward()
        step.step()
    assert torch.equal(net[0].weight, before)


class Buffered(nn.Linear):
    """A trainable layer with a running statistic, which no accountant covers."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.register_buffer("mean", torch.zeros(2))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (nn.Sequential(Buffered()), "buffers"),
        (nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4)), "BatchNorm"),
        (nn.MultiheadAttention(4, 2), "MultiheadAttention"),
        (nn.Linear(2, 2).eval(), "training mode"),
    ],
)
def test_unsupported_models_are_refused(net: nn.Module, reason: str) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    with pytest.raises(InputError, match=reason):
        privatise(net, optimizer, sigma=1.0, clip=1.0, expected_batch=2.0)


def test_foreign_optimizer_and_second_wrapping_are_refused() -> None:
    net, other = model(), model()
    foreign = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=1.0)
    with pytest.raises(InputError, match="another module"):
        privatise(net, foreign, sigma=1.0, clip=1.0, expected_batch=2.0)
    own = torch.optim.SGD(net.parameters(), lr=1.0)
    privatise(net, own, sigma=1.0, clip=1.0, expected_batch=2.0)
    with pytest.raises(InputError, match="twice"):
        privatise(net, own, sigma=1.0, clip=1.0, expected_batch=2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sigma", -1.0), ("sigma", float("inf")), ("clip", 0.0), ("expected_batch", 0.0),
     ("expected_batch", float("nan"))],
)  # fmt: skip
def test_numbers_are_checked(name: str, value: float) -> None:
    numbers = {"sigma": 1.0, "clip": 1.0, "expected_batch": 2.0, name: value}
    net = model()
    with pytest.raises(InputError, match=name):
        privatise(net, torch.optim.SGD(net.parameters(), lr=1.0), **numbers)
