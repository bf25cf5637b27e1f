"""ECGViT: the vision transformer on ECG patches that the biometric classifiers share.

Source: REAN paper, section IV-A, after TransECG: patch 20, width 240, depth 6, 6 heads, MLP 128,
stochastic-depth survival 0.8. Attention is built from Linear layers and the class token and the
positions are leaf modules, because Opacus needs per-sample gradients of every parameter.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.config import Profile


class Tokens(nn.Module):
    """Prepends a class token and adds learned positions. [B, T, D] -> [B, T + 1, D]."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        # Embeddings rather than bare parameters: Opacus knows their per-sample gradient.
        self.start = nn.Embedding(1, width)
        self.position = nn.Embedding(count + 1, width)
        nn.init.normal_(self.start.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T + 1, D]."""
        batch, count, _ = x.shape
        zero = torch.zeros(batch, 1, dtype=torch.long, device=x.device)
        order = torch.arange(count + 1, device=x.device).expand(batch, -1)
        tokens = torch.cat([self.start(zero), x], dim=1)  # (B, T+1, D)
        out: Tensor = tokens + self.position(order)
        return out


class Block(nn.Module):
    """Pre-norm transformer block with stochastic depth (Huang et al., 2016)."""

    def __init__(self, width: int, heads: int, mlp: int, survival: float) -> None:
        super().__init__()
        self.heads, self.survival = heads, survival
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, mlp), nn.GELU(), nn.Linear(mlp, width))

    def attend(self, x: Tensor) -> Tensor:
        """Multi-head self-attention. [B, T, D] -> [B, T, D]."""
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)  # (B, H, T, D/H)
        out: Tensor = self.out(y.transpose(1, 2).reshape(b, t, d))
        return out

    def attention(self, x: Tensor) -> Tensor:
        """The weights that `attend` gives the tokens, [B, T, D] -> [B, heads, T, T], rows sum to 1.

        Computed a second time from q and k: the fused kernel of `attend` does not return them.
        """
        b, t, d = x.shape
        width = d // self.heads
        q, k, _ = self.qkv(x).reshape(b, t, 3, self.heads, width).permute(2, 0, 3, 1, 4)
        out: Tensor = (q @ k.transpose(2, 3) / width**0.5).softmax(3)
        return out

    def keep(self, x: Tensor) -> Tensor | float:
        """Which samples of the batch keep this block, scaled to the same expectation."""
        if not self.training or self.survival == 1:
            return 1.0
        return (torch.rand(len(x), 1, 1, device=x.device) < self.survival) / self.survival

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        x = x + self.keep(x) * self.attend(self.norm1(x))
        out: Tensor = x + self.keep(x) * self.mlp(self.norm2(x))
        return out


class ECGViT(nn.Module):
    """[B, leads, L] in [0, 1] -> features [B, width]."""

    def __init__(self, profile: Profile, leads: int) -> None:
        super().__init__()
        width, depth = profile.vit_width, profile.vit_depth
        self.patch, self.features = profile.patch, width
        self.embed = nn.Linear(leads * profile.patch, width)
        self.tokens = Tokens(profile.length // profile.patch, width)
        # Survival falls linearly with depth to profile.vit_survival.
        self.blocks = nn.ModuleList(
            Block(width, profile.vit_heads, profile.vit_mlp,
                  1 - (1 - profile.vit_survival) * (i + 1) / depth)
            for i in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def embedded(self, x: Tensor) -> Tensor:
        """Class token and patches, before the blocks. [B, leads, L] -> [B, T + 1, width]."""
        b, c, _ = x.shape
        x = x.reshape(b, c, -1, self.patch).transpose(1, 2).flatten(2)  # (B, T, leads*patch)
        out: Tensor = self.tokens(self.embed(2 * x - 1))
        return out

    def attention(self, x: Tensor) -> list[Tensor]:
        """Attention of each block, [B, leads, L] -> depth times [B, heads, T + 1, T + 1].

        Row i says where token i looks; token 0 is the class token. In evaluation mode these are
        the weights of `forward`.
        """
        x, maps = self.embedded(x), []
        for block in self.blocks:
            assert isinstance(block, Block)
            maps.append(block.attention(block.norm1(x)))
            x = block(x)
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, width]."""
        x = self.embedded(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)[:, 0]
        return out
