"""Attention maps are those that the forward pass uses."""

from __future__ import annotations

import pytest
import torch

from common.config import Profile
from common.models.ecg_vit import ECGViT


@pytest.mark.parametrize("leads", [1, 3])
def test_attention_of_each_block_is_what_the_block_applies(leads):
    torch.manual_seed(0)
    vit = ECGViT(Profile(), leads).eval()
    x = torch.rand(2, leads, 800)
    maps = vit.attention(x)
    assert [tuple(m.shape) for m in maps] == [(2, 4, 41, 41)] * 2
    tokens = vit.embedded(x)
    for block, weights in zip(vit.blocks, maps, strict=True):
        assert torch.allclose(weights.sum(3), torch.ones(2, 4, 41), atol=1e-5)
        inputs = block.norm1(tokens)
        values = block.qkv(inputs)[..., 128:].reshape(2, 41, 4, 16).transpose(1, 2)  # (B, H, T, D)
        mixed = (weights @ values).transpose(1, 2).reshape(2, 41, 64)
        assert torch.allclose(block.out(mixed), block.attend(inputs), atol=1e-5)
        tokens = block(tokens)
    assert torch.equal(vit.norm(tokens)[:, 0], vit(x))
