import numpy as np
import pytest
import torch

from common.anonymizers.contract import Frozen
from common.anonymizers.rean import (
    ReanAnonymizer,
    apply_residual,
    at_share,
    hidden,
    prd,
    rean_loss,
)
from common.config import Rean, Settings
from common.models.classifier import build
from common.models.verifier import SIZE, TEMPERATURE
from common.protocol import CLASSIFIER_STAGES
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


@pytest.mark.parametrize("target", ["away", "uniform", "decoy"])
def test_what_hides_an_attribute(target):
    torch.manual_seed(0)
    rean, labels = Rean(target=target), torch.tensor([0, 1, -1])
    sure = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [9.0, 0.0, 0.0]])
    ignorant, wrong = torch.zeros(3, 3), sure.roll(1, dims=1)
    scores = {name: hidden(logits, labels, rean) for name, logits in
              (("sure", sure), ("ignorant", ignorant), ("wrong", wrong))}
    known = slice(0, 2)
    assert (scores["sure"][known] < scores["ignorant"][known]).all()
    if target == "away":  # wrong for certain is best: a flipped answer tells all
        assert (scores["wrong"][known] > scores["ignorant"][known]).all()
    if target == "uniform":  # ignorance is best, and needs no label
        assert torch.allclose(scores["ignorant"], torch.zeros(3))
        assert (scores["wrong"] < 0).all() and scores["sure"][2] < 0
    else:
        assert all(score[2] == 0 for score in scores.values())


def test_a_coin_is_the_decoy_of_a_binary_attribute():
    torch.manual_seed(0)
    labels = torch.zeros(4000, dtype=torch.long)
    flipped = torch.tensor([[0.0, 4.0]]).expand(4000, 2)
    loss = -hidden(flipped, labels, Rean(target="decoy"))
    assert loss.mean() == pytest.approx(2.0, abs=0.15)  # half of the time the coin says 0
    people = torch.zeros(4000, 3).index_fill_(1, torch.tensor([0]), 4.0)
    assert (-hidden(people, labels, Rean(target="decoy"))).min() > 4.0  # never the own label


def test_distortion_weights_grow():
    rean = Rean(prd=2.0, l1=4.0)
    assert (at_share(rean, 0.0).prd, at_share(rean, 0.5).l1, at_share(rean, 1.0)) == (0, 2.0, rean)


def test_an_embedding_hides_a_window_from_its_own_clean_one():
    b = batch()
    settings = Settings(identity_by="embedding")
    networks = [build(stage, settings, 1, 3, 5) for stage in CLASSIFIER_STAGES]
    public = torch.nn.functional.normalize(torch.randn(6, SIZE), dim=1)
    found = Frozen(*networks, public=public).freeze()
    delta = torch.randn(4, 1, 800)
    unlabelled = {**b, "sex": torch.full((4,), -1), "age": torch.full((4,), -1)}
    alone = Rean(utility=0, privacy=1, prd=0, l1=0)
    loss = rean_loss(lambda x: delta, unlabelled, found, alone)
    with torch.no_grad():
        own = found.identity(b["x"])
        query = found.identity(apply_residual(delta, b["x"], alone.bound))
    scores = torch.cat([(query * own).sum(1, keepdim=True), query @ public.T], 1) / TEMPERATURE
    torch.testing.assert_close(loss, scores.log_softmax(1)[:, 0])  # minus the cross-entropy
