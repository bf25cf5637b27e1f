import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from common.config import Profile, Settings
from common.models.classifier import build, load_shared, shared_state
from common.training import (
    Schedule,
    allowed_loss,
    masked_loss,
    precision,
    shifted,
    shuffled,
    train,
)


@given(st.integers(1, 15), st.integers(0, 2**31 - 1))
def test_allowed_loss_is_minus_log_of_the_allowed_probability(mask, seed):
    logits = torch.randn(1, 4, generator=torch.Generator().manual_seed(seed))
    p = logits.softmax(1)[0]
    expected = -torch.log(sum(p[c] for c in range(4) if mask >> c & 1))
    if mask == 15:
        expected = torch.tensor(0.0)
    assert torch.allclose(allowed_loss(logits, torch.tensor([mask]))[0], expected, atol=1e-5)


def test_unknown_labels_give_no_gradient():
    logits = torch.randn(3, 2, requires_grad=True)
    masked_loss(logits, torch.tensor([1, -1, 0])).sum().backward()
    assert logits.grad[1].abs().sum() == 0
    assert logits.grad[0].abs().sum() > 0


@given(st.integers(1, 50), st.integers(1, 20), st.integers(1, 3))
def test_shuffled_visits_every_window_once_a_pass(n, batch, epochs):
    seen = np.concatenate(list(shuffled(n, batch, epochs, 0)))
    assert np.array_equal(np.bincount(seen, minlength=n), np.full(n, epochs))


def test_reduced_loss_is_refused():
    network = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="per window"):
        train(network, torch.optim.SGD(network.parameters()), shuffled(4, 2, 1, 0),
              lambda i: {"x": torch.ones(len(i), 1)}, lambda net, b: net(b["x"]).mean(),
              Schedule(0.1, 0, 2))


def test_paper_networks_have_the_papers_size():
    profile = Profile("paper", 250, 8.0, 20, 240, 6, 6, 128, 0.8, 64, 32, 4)
    count = {stage: sum(p.numel() for p in build(stage, Settings(profile=profile), 1, 186, 0)
                        .parameters()) for stage in ("diagnosis", "identity", "anonymizer")}
    assert 8.6e6 < count["diagnosis"] < 8.8e6
    assert 1.80e6 < count["identity"] < 1.88e6
    assert 1.2e6 < count["anonymizer"] < 1.8e6


def test_identity_head_never_crosses_the_wire():
    network = build("identity", Settings(), 1, 7, 0)
    state = shared_state("identity", network)
    assert state and not any(name.startswith("head.") for name in state)
    load_shared("identity", build("identity", Settings(), 1, 3, 1), state)
    sex = shared_state("sex", build("sex", Settings(), 1, 0, 0))
    assert any(name.startswith("head.") for name in sex)


def test_mixed_precision_is_for_gpus_only():
    assert not precision(torch.device("cpu"))._enabled


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_mixed_precision_never_in_a_private_step():
    assert precision(torch.device("cuda"))._enabled == torch.cuda.is_bf16_supported()
    assert not precision(torch.device("cuda"), private=True)._enabled


@given(st.integers(0, 2**31 - 1))
def test_shifts_rotate_every_window_on_its_own(seed):
    x = np.random.default_rng(seed).random((5, 2, 16), dtype=np.float32)
    label = torch.arange(5)
    out = shifted({"x": torch.from_numpy(x), "identity": label}, np.random.default_rng(seed))
    first = np.random.default_rng(seed).integers(0, 16, 5)
    expected = np.stack([np.roll(w, -k, axis=1) for w, k in zip(x, first, strict=True)])
    assert np.array_equal(out["x"].numpy(), expected) and out["identity"] is label


def test_schedule_warms_up_then_falls_across_calls():
    whole = [Schedule(0.1, 0, 100).at(step) for step in range(100)]
    parts = [Schedule(0.1, first, 100).at(step) for first in (0, 50) for step in range(50)]
    assert whole == parts
    assert np.argmax(whole) == 9 and whole[9] == pytest.approx(0.1, rel=1e-3)
    assert all(a < b for a, b in zip(whole[:9], whole[1:10], strict=True))
    assert all(a > b for a, b in zip(whole[9:], whole[10:], strict=False)) and whole[-1] < 1e-4
