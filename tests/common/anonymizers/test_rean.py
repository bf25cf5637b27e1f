import numpy as np
import pytest
import torch

from common.anonymizers.contract import Frozen
from common.anonymizers.rean import ReanAnonymizer, apply_residual, prd, rean_loss
from common.config import Rean, Settings
from common.models.classifier import build
from common.training import allowed_loss


def batch(n=4):
    torch.manual_seed(0)
    return {"x": torch.rand(n, 1, 800), "allowed": torch.tensor([1, 2, 4, 15])[:n],
            "identity": torch.tensor([0, 1, 2, -1])[:n], "sex": torch.tensor([0, 1, -1, 0])[:n],
            "age": torch.tensor([0, 4, -1, 2])[:n]}


def frozen():
    return Frozen(*(build(stage, Settings(), 1, 3, 5)
                    for stage in ("diagnosis", "identity", "sex", "age"))).freeze()


def test_prd_matches_its_definition_and_has_a_finite_gradient_at_zero():
    x = torch.rand(2, 1, 50)
    y = (x + 0.1).requires_grad_()
    expected = 100 * (y - x).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
    assert torch.allclose(prd(x, y), expected, rtol=1e-3)
    same = x.clone().requires_grad_()
    prd(x, same).sum().backward()
    assert torch.isfinite(same.grad).all()


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_loss_is_its_formula(scale):
    b, networks = batch(), frozen()
    delta = scale * torch.randn(4, 1, 800)
    loss = rean_loss(lambda x: delta, b, networks, Rean())
    y = b["x"] + 0.08 * torch.tanh(delta)
    expected = 1.51 * allowed_loss(networks.diagnosis(y), b["allowed"])
    for name in ("identity", "sex", "age"):
        ce = torch.nn.functional.cross_entropy(getattr(networks, name)(y),
                                               b[name].clamp(min=0), reduction="none")
        expected = expected - 0.153 * torch.where(b[name] < 0, 0.0, ce)
    change = y - b["x"]
    expected = expected + 0.323 * change.norm(dim=(1, 2)) / b["x"].norm(dim=(1, 2))
    expected = expected + 1.46 * change.abs().mean((1, 2))
    assert loss.shape == (4,)
    assert torch.allclose(loss, expected, atol=1e-4)


def test_a_step_is_finite_and_leaves_the_frozen_networks_alone():
    network, networks = build("anonymizer", Settings(), 1, 0, 0), frozen()
    before = networks.identity.state_dict()["head.weight"].clone()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        rean_loss(network, batch(), networks, Rean()).mean().backward()
        optimizer.step()
    assert all(torch.isfinite(p).all() for p in network.parameters())
    assert torch.equal(before, networks.identity.state_dict()["head.weight"])


def test_change_is_bounded():
    windows = np.random.default_rng(0).random((3, 1, 800), dtype=np.float32)
    network = build("anonymizer", Settings(), 1, 0, 0)
    torch.nn.init.normal_(network.out.weight, std=100.0)
    released = ReanAnonymizer(network, Rean(bound=0.08)).release(windows)
    change = np.abs(released - windows)
    assert released.shape == windows.shape
    assert 0.05 < change.max() <= 0.08 + 1e-6
    assert torch.equal(apply_residual(torch.zeros(1), torch.ones(1), 0.1), torch.ones(1))
