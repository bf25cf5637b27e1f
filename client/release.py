"""The release: a hospital's test recordings, anonymized, as WFDB; and its audit bundle.

Released samples are what was attacked: windows in [0, 1] (unit "NU"), since the amplitude in mV
would tell more than the audit looked at. Windows that were left out are gaps.
"""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import wfdb
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import nn

from client.hospital import Hospital
from common.anonymizers.rean import ReanAnonymizer
from common.models.verifier import Verifier
from common.privacy.sites import epsilon_sites
from common.privacy.tight import tight_epsilon
from common.protocol import CLASSIFIER_STAGES
from common.results import write_json
from common.training import predict

Floats = NDArray[np.float32]

# What a bundle says of the hospital's data; a patient's age in years, which the store has, stays.
_DECLARED = ("name", "patients", "records", "leads", "records_by_leads", "sampling_rate",
             "seconds", "hours", "recorded_hours", "skipped", "bad_seconds", "left_out",
             "uncalibrated", "demographics")
_SITES = (2, 4)  # hospitals that a patient may be at, of the worst cases that are printed
_PIECE = 4096  # windows anonymized at a time: a store may be larger than memory


def anonymizer_of(hospital: Hospital) -> ReanAnonymizer:
    """The trained anonymizer as this hospital holds it."""
    return ReanAnonymizer(hospital.trained("anonymizer"), hospital.settings.rean)


def write_release(hospital: Hospital) -> Path:
    """Write the anonymized test part of every record, under names that tell nothing.

    Returns:
        The folder, `<state>/<run>/release`; an unfinished one never has this name.
    """
    target = hospital.state / "release"
    part = hospital.state / "release.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    index, info = hospital.store.index, hospital.store.info
    rows = hospital.store.select("test")
    names = []
    for record in np.unique(index["record"][rows]):
        of_record = rows[index["record"][rows] == record]
        released = anonymizer_of(hospital).release(np.array(hospital.store.windows[of_record]))
        starts = index["start"][of_record]
        name = secrets.token_hex(6)
        wfdb.wrsamp(name, info["sampling_rate"],
                    ["NU"] * released.shape[1], [f"lead {i + 1}" for i in range(released.shape[1])],
                    p_signal=_stitch(released, starts, info["sampling_rate"]),
                    fmt=["16"] * released.shape[1], adc_gain=[20000.0] * released.shape[1],
                    baseline=[0] * released.shape[1], write_dir=str(part))
        names.append(name)
    (part / "RECORDS").write_text("\n".join(sorted(names)) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    return target


def _stitch(windows: NDArray[np.float32], starts: NDArray[np.float64],
            rate: int) -> NDArray[np.float64]:
    """Windows [n, leads, L] at their start times (s) -> signal [samples, leads], NaN in gaps."""
    first = np.round((starts - starts[0]) * rate).astype(int)
    length = windows.shape[2]
    signal = np.full((first[-1] + length, windows.shape[1]), np.nan)
    for at, window in zip(first, windows, strict=True):
        signal[at : at + length] = window.T
    return signal


def export_bundle(hospital: Hospital, folder: Path) -> None:
    """Write the audit bundle: clean and released windows, labels, and the frozen networks' answers.

    Anonymized training windows are part of it, so that the auditor can retrain on them: the worst
    case of a recipient who collects releases of known patients. In a simulation every patient is
    in the bundle.
    """
    store, anonymizer = hospital.store, anonymizer_of(hospital)
    target, part = folder / hospital.site, folder / f"{hospital.site}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    clean = store.windows
    np.save(part / "clean.npy", clean)
    released = open_memmap(part / "released.npy", mode="w+", dtype=np.float32, shape=clean.shape)
    started = time.perf_counter()
    for first in range(0, len(clean), _PIECE):
        released[first : first + _PIECE] = anonymizer.release(clean[first : first + _PIECE])
    seconds = time.perf_counter() - started
    np.save(part / "index.npy", store.index)
    shutil.copyfile(store.path / "beats.npz", part / "beats.npz")
    np.save(part / "allowed.npy", hospital.allowed)
    np.save(part / "slot.npy", hospital.slot[store.index["patient"]])
    for stage in CLASSIFIER_STAGES:
        network = hospital.trained(stage)
        for name, windows in (("clean", clean), ("released", released)):
            np.save(part / f"frozen-{stage}-{name}.npy", _answers(hospital, network, windows))
    write_json(part / "bundle.json", {
        "site": hospital.site, "data": {key: store.info[key] for key in _DECLARED},
        "ms_per_window": 1000 * seconds / max(1, len(clean)),
        "privacy": _account(hospital),
    })
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)


def _account(hospital: Hospital) -> dict[str, Any]:
    """What the ledger says; of a patient also by the tighter accountant, and at K hospitals."""
    privacy = hospital.settings.privacy
    account = hospital.ledger.account(privacy.delta)
    found: dict[str, Any] = {
        "unit": account.unit, "epsilon": account.epsilon_window, "delta": account.delta,
        "releases": account.releases, "cap": privacy.cap or privacy.epsilon,
        "patient": "not bounded" if account.epsilon_patient is None else account.epsilon_patient}
    if account.unit == "patient" and account.epsilon_patient is not None:
        releases = hospital.ledger.releases()
        spends = [r.spend for r in releases if r.spend]
        summed = {r.trust for r in releases} == {"aggregate"}
        found |= {"tight": tight_epsilon(spends, privacy.delta)._asdict(),
                  "sites": {str(k): epsilon_sites(spends, privacy.delta, k,
                                                  "aggregate" if summed else "hospital")
                            for k in sorted({*_SITES, max(2, privacy.sites)})},
                  "linked": privacy.sites,
                  **hospital.canaries.proved(privacy.delta)}
    return found


def _answers(hospital: Hospital, network: nn.Module, windows: Floats) -> Floats:
    """Scores of windows, [n, classes]; of a Verifier those of the slots that a head would have.

    A patient's is the cosine with the mean of his own training windows' embeddings.
    """
    scores = np.asarray(predict(network, windows).numpy())
    if not isinstance(network, Verifier):
        return scores
    rows = hospital.store.select("train", reserved=False)
    known = predict(network, hospital.store.windows[rows]).numpy()  # (n, d)
    slot = hospital.slot[hospital.store.index["patient"][rows]]
    templates = np.zeros((hospital.slots, known.shape[1]), dtype=np.float32)
    np.add.at(templates, slot, known)
    length = np.linalg.norm(templates, axis=1, keepdims=True)
    return np.asarray(scores @ (templates / np.maximum(length, 1e-9)).T)
