"""A backbone with a linear head, and which network serves which stage.

The parts are named `backbone` and `head`, so that the identity stage can share one and keep the
other in the hospital.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from common.config import Settings
from common.models.cnn_lstm import CNNLSTM
from common.models.ecg_vit import ECGViT
from common.models.inception_time import InceptionTime
from common.models.resnet1d import ResNet1D
from common.models.unet1d import UNet1D
from common.models.verifier import Verifier
from common.protocol import AGE_BANDS, ARRHYTHMIA_CLASSES, SEXES, Stage


class Classifier(nn.Module):
    """[B, leads, L] -> logits [B, classes]."""

    def __init__(self, backbone: ECGViT | ResNet1D | InceptionTime | CNNLSTM,
                 classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.features, classes)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, classes]."""
        out: Tensor = self.head(self.backbone(x))
        return out


def build(stage: Stage, settings: Settings, leads: int, identities: int, seed: int) -> nn.Module:
    """The network of one stage, initialised by seed.

    Args:
        stage: diagnosis is a ResNet1D, the biometric stages are ECGViTs, the anonymizer a U-Net;
            identity is a Verifier where it is told by an embedding.
        settings: of the run; the profile, and how identity is told, are used.
        leads: leads of a window.
        identities: rows of the identity head (used by that stage alone).
        seed: of the initial weights.
    """
    profile = settings.profile
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if stage == "anonymizer":
            return UNet1D(profile.unet_width, profile.unet_levels, leads)
        if stage == "diagnosis":
            return Classifier(ResNet1D(profile.resnet_width, leads), len(ARRHYTHMIA_CLASSES))
        if stage == "identity" and settings.identity_by == "embedding":
            return Verifier(ECGViT(profile, leads))
        classes = {"identity": identities, "sex": len(SEXES), "age": len(AGE_BANDS)}[stage]
        return Classifier(ECGViT(profile, leads), classes)


def shared_state(stage: Stage, network: nn.Module) -> dict[str, Tensor]:
    """The weights of a stage that cross the wire: all but the identity head."""
    return {
        name: value.detach().cpu()
        for name, value in network.state_dict().items()
        if not (stage == "identity" and name.startswith("head."))
    }


def load_shared(stage: Stage, network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load shared weights; an identity head stays as it is."""
    missing, unexpected = network.load_state_dict(dict(state), strict=False)
    kept = {"head.weight", "head.bias"} if stage == "identity" else set()
    if unexpected or set(missing) - kept:
        raise KeyError(f"{stage}: missing {missing}, unexpected {unexpected}")
