"""Which layers training changes: noise grows with their number, so under privacy few are better."""

from __future__ import annotations

from torch import nn

_LAST = ("head", "projection", "out")  # of a Classifier, a Verifier, and a U-Net


def choose(network: nn.Module, which: str) -> nn.Module:
    """The network with all but the chosen layers frozen.

    Args:
        network: of any stage.
        which: "all"; "none"; "last", the layer that gives the answer; or "norms", the last layer
            and the scales and shifts of all normalisations.
    """
    if which == "all":
        return network
    network.requires_grad_(False)
    for name in _LAST if which != "none" else ():
        if hasattr(network, name):
            getattr(network, name).requires_grad_(True)
    for layer in network.modules():
        if which == "norms" and isinstance(layer, nn.GroupNorm | nn.LayerNorm):
            layer.requires_grad_(True)
    return network
