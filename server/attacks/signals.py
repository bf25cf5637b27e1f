"""What each model that leaves a hospital says of a window: the losses that membership is read from.

Members and non-members are asked the same: the training part of their recordings. The identity
model has no class for a non-member, so its backbone enrols everyone; the anonymizer's loss is
taken without its identity term, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.anonymizers.rean import apply_residual, hidden, prd
from common.audits.membership import enrolment_loss
from common.models.classifier import Classifier, build, load_shared
from common.models.files import load_state
from common.protocol import ARRHYTHMIA_CLASSES, Stage
from common.training import Indices, allowed_loss, device_of, masked_loss, predict
from server.attacks.case import Case
from server.bundles import Bundles

Floats = NDArray[np.float64]

ATTRIBUTES: tuple[Stage, ...] = ("sex", "age")
_JUDGES: tuple[Stage, ...] = ("diagnosis", *ATTRIBUTES)  # of the anonymizer's loss


@dataclass(frozen=True)
class Signal:
    """One released model.

    Args:
        rows: windows that it is asked of, in the bundles' order.
        target: their losses under the released model, [n].
        under: their losses under another network of the same stage, for some of the rows.
    """

    rows: Indices
    target: Floats
    under: Callable[[nn.Module, Indices], Floats]


def signals(case: Case) -> dict[Stage, Signal]:
    """Of every model whose answers or weights the auditor has; losses that are NaN are left out."""
    found: dict[Stage, Signal] = {}
    if case.bundles.frozen:
        for stage in ("diagnosis", *ATTRIBUTES):
            found[stage] = _classifier(case, stage)
        found["anonymizer"] = _anonymizer(case)
    if released(case, "identity", 0) is not None:
        found["identity"] = _identity(case)
    return {stage: signal for stage, signal in found.items() if len(signal.rows)}


def released(case: Case, stage: Stage, hospital: int) -> nn.Module | None:
    """The model as it left; None where the auditor was not given it. An identity head is random."""
    if case.models is None:
        return None
    folder = case.models
    if case.settings.training == "local":
        folder = folder.parent / case.bundles.info[hospital]["site"] / folder.name
    file = folder / f"{stage}.safetensors"
    if not file.exists():
        return None
    network = build(stage, case.settings, case.bundles.clean.shape[1], 2, 0)
    load_shared(stage, network, load_state(file))
    return network.eval().requires_grad_(False).to(device_of(case.settings.device))


def usable(bundles: Bundles, stage: Stage) -> Indices:
    """Training windows that carry information for a stage, as a hospital chooses them."""
    rows = bundles.rows("train")
    known: NDArray[np.bool_] = np.ones(len(rows), dtype=bool)
    if stage == "diagnosis":
        known = np.asarray(bundles.allowed[rows] != (1 << len(ARRHYTHMIA_CLASSES)) - 1)
    elif stage in ATTRIBUTES:
        known = np.asarray(getattr(bundles, stage)[rows] >= 0)
    elif stage == "anonymizer":  # what is NaN was not released
        known = np.asarray(np.isfinite(bundles.released[rows]).all(axis=(1, 2)))
    return rows[known]


def _label_loss(bundles: Bundles, stage: Stage, rows: Indices, logits: Tensor) -> Tensor:
    if stage == "diagnosis":
        return allowed_loss(logits, torch.from_numpy(bundles.allowed[rows].astype(np.int64)))
    return masked_loss(logits, torch.from_numpy(getattr(bundles, stage)[rows]))


def _answers(bundles: Bundles, name: str, rows: Indices) -> Tensor:
    return torch.from_numpy(np.concatenate(bundles.frozen[name])[rows].astype(np.float64))


def _classifier(case: Case, stage: Stage) -> Signal:
    bundles, rows = case.bundles, usable(case.bundles, stage)

    def under(network: nn.Module, some: Indices) -> Floats:
        logits = predict(network, bundles.clean[some]).double()
        return np.asarray(_label_loss(bundles, stage, some, logits).numpy())

    target = _label_loss(bundles, stage, rows, _answers(bundles, f"{stage}-clean", rows))
    return Signal(rows, np.asarray(target.numpy()), under)


def _identity(case: Case) -> Signal:
    bundles, rows = case.bundles, usable(case.bundles, "identity")
    late = np.zeros(len(bundles.patient), dtype=bool)
    for name in np.unique(bundles.patient[rows]):
        own = rows[bundles.patient[rows] == name]
        order = own[np.lexsort((bundles.start[own], bundles.record[own]))]
        late[order[len(order) // 2:]] = True

    def under(network: nn.Module, some: Indices) -> Floats:
        loss = np.full(len(some), np.nan)
        embedding = predict(cast(Classifier, network).backbone, bundles.clean[some]).numpy()
        for hospital in np.unique(bundles.hospital[some]):  # a head knows its own patients alone
            at = np.flatnonzero(bundles.hospital[some] == hospital)
            loss[at] = enrolment_loss(embedding[at], bundles.patient[some[at]], late[some[at]])
        return loss

    target = np.full(len(rows), np.nan)
    for hospital in np.unique(bundles.hospital[rows]):
        at = np.flatnonzero(bundles.hospital[rows] == hospital)
        network = released(case, "identity", int(hospital))
        if network is not None:
            target[at] = under(network, rows[at])
    kept = np.isfinite(target)
    return Signal(rows[kept], target[kept], under)


def _anonymizer(case: Case) -> Signal:
    bundles, rows = case.bundles, usable(case.bundles, "anonymizer")
    rean = case.settings.rean

    def loss(some: Indices, out: NDArray[np.float32], logits: dict[Stage, Tensor]) -> Floats:
        x, y = (torch.from_numpy(np.array(part)).double() for part in (bundles.clean[some], out))
        total = rean.utility * _label_loss(bundles, "diagnosis", some, logits["diagnosis"])
        for stage in ATTRIBUTES:
            label = torch.from_numpy(getattr(bundles, stage)[some])
            total = total - rean.privacy * hidden(logits[stage], label, rean)
        total = total + rean.prd * prd(x, y) / 100 + rean.l1 * (y - x).abs().flatten(1).mean(1)
        return np.asarray(total.numpy())

    def under(network: nn.Module, some: Indices) -> Floats:
        x = np.array(bundles.clean[some])
        out = apply_residual(predict(network, x), torch.from_numpy(x), rean.bound).numpy()
        logits: dict[Stage, Tensor] = {}
        for stage in _JUDGES:
            judge = released(case, stage, int(bundles.hospital[some[0]]))
            assert judge is not None  # references are trained against the same three
            logits[stage] = predict(judge, out).double()
        return loss(some, out, logits)

    frozen = {stage: _answers(bundles, f"{stage}-released", rows) for stage in _JUDGES}
    return Signal(rows, loss(rows, bundles.released[rows], frozen), under)
