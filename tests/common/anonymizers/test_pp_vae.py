"""PP-VAE loses morphology, identity and demographics alike, the more so the larger beta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from common.anonymizers.contract import Effort
from common.anonymizers.pp_vae import PPVae, Vae, reversed_gradient, vae_loss
from common.audits.utility import prd


@pytest.fixture(scope="module")
def fitted(hospital):
    vae = PPVae()
    vae.fit(hospital.train, hospital.frozen, Effort(100))
    return vae


def test_identity_and_demographics_fall_with_the_morphology(hospital, fitted):
    x, patient = hospital.test.x, hospital.test.patient
    released = fitted.anonymize(hospital.test, seed=1)
    assert released.shape == x.shape and released.dtype == np.float32
    assert released.min() >= 0 and released.max() <= 1
    for stage, margin in (("identity", 0.2), ("sex", 0.1), ("age", 0.1)):
        assert hospital.accuracy(stage, released) < hospital.accuracy(stage, x) - margin, stage
    # It is not cheap, but it is still a trace: a flat line costs about 37 %.
    flat = np.broadcast_to(x.mean(2, keepdims=True), x.shape)
    assert 10 < prd(x, released, patient).value < 0.85 * prd(x, flat, patient).value


def test_a_release_is_drawn_anew(hospital, fitted):
    some, state = hospital.test.select(np.arange(8)), torch.get_rng_state()
    first = fitted.anonymize(some, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(first, fitted.anonymize(some, seed=1))
    assert np.abs(first - fitted.anonymize(some, seed=2)).mean() > 1e-3


def test_a_large_beta_flattens_the_trace(hospital, fitted):
    strict = PPVae(beta=3.0)
    strict.fit(hospital.train, hospital.frozen, Effort(40))
    spread = strict.anonymize(hospital.test).std(2).mean()
    assert spread < 0.6 * fitted.anonymize(hospital.test).std(2).mean()
    assert spread < 0.5 * hospital.test.x.std(2).mean()


def test_the_adversary_learns_what_the_encoder_unlearns():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = reversed_gradient(x, 0.5)
    assert torch.allclose(y, x)
    y.square().sum().backward()
    assert torch.allclose(x.grad, -0.5 * 2 * x)


def gradients(vae: Vae, batch: dict[str, torch.Tensor], privacy: float) -> tuple[float, list]:
    """Size of the gradient in the branches for sex and age, and the encoder's."""
    vae.zero_grad()
    torch.manual_seed(0)
    vae_loss(vae, batch, 0.1, privacy).mean().backward()
    branches = [p.grad for b in (vae.sex, vae.age) for p in b.parameters()]
    return (sum(float(g.abs().sum()) for g in branches),
            [p.grad.clone() for p in vae.encoder.parameters()])


def test_unknown_labels_teach_nothing(hospital):
    torch.manual_seed(0)
    vae, batch = Vae(1), hospital.train.batch(np.arange(8), torch.device("cpu"))
    unknown = {**batch, "sex": torch.full((8,), -1), "age": torch.full((8,), -1)}
    size, weak = gradients(vae, batch, 0.0)
    assert size > 0
    assert any(not torch.allclose(a, b) for a, b in
               zip(weak, gradients(vae, batch, 1.0)[1], strict=True))
    size, weak = gradients(vae, unknown, 0.0)
    assert size == 0
    assert all(torch.allclose(a, b) for a, b in
               zip(weak, gradients(vae, unknown, 1.0)[1], strict=True))


def test_several_leads_and_any_length(hospital):
    some = hospital.train.select(np.arange(8))
    some = replace(some, x=np.concatenate([some.x, 1 - some.x, some.x], 1)[..., :790])
    vae = PPVae()
    vae.fit(some, hospital.frozen, Effort(2, batch=4))
    assert vae.anonymize(some).shape == (8, 3, 790)
