"""Every probe against every enrolled window, in blocks: no similarity matrix is ever whole.

A patient is as similar to a probe as the nearest of the patient's enrolled windows. Enrolled
windows are laid out in layers, of which the j-th has the j-th window of each patient, so that the
nearest is an elementwise maximum of matrix products: it costs little beside these themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_ELEMENTS = 1 << 20  # of a block of similarities: 4 MiB, which stays in a core's cache


@dataclass(frozen=True)
class Matches:
    """What is known of each probe once it was compared with everybody.

    Args:
        rank: how many patients are nearer than the probe's own, [n]; ties count as a coin says.
        own: cosine with the nearest window of the own patient, [n].
        others: the same for some other patients, drawn at random, [n, m].
        patient: of each probe, [n].
        enrolled: number of patients.
        rows: of the probes among those given; the others' patients are not enrolled.
    """

    rank: Ints
    own: Floats
    others: Floats
    patient: Ints
    enrolled: int
    rows: Ints


def match(gallery: Floats, gallery_patient: Ints, probe: Floats, probe_patient: Ints,
          others: int = 100, seed: int = 0) -> Matches:
    """Compare by cosine similarity; probes of patients who are not enrolled take no part.

    Args:
        gallery: embeddings of enrolled windows, [m, d].
        gallery_patient: [m].
        probe: embeddings, [n, d].
        probe_patient: [n].
        others: how many other patients' similarities are kept a probe, at most.
        seed: of the draws: of other patients, and among equally near ones.
    """
    layers, names = _layers(unit(gallery), gallery_patient)
    rows = np.flatnonzero(np.isin(probe_patient, names))
    sorter = np.argsort(names)
    column = sorter[np.searchsorted(names, probe_patient[rows], sorter=sorter)]
    generator = np.random.default_rng(seed)
    kept = max(0, min(others, len(names) - 1))
    found = Matches(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.float32),
                    np.zeros((len(rows), kept), np.float32), probe_patient[rows], len(names), rows)
    probes = unit(probe[rows])
    for at, near in _blocks(torch.from_numpy(probes), layers):  # (b, patients)
        own = torch.from_numpy(column[at])[:, None]
        found.own[at] = near.gather(1, own)[:, 0].numpy()
        nearer, equal = _count(near.numpy(), found.own[at])
        found.rank[at] = nearer + generator.integers(0, equal + 1)
        if not kept:
            continue
        # One shift for all probes of a block: any `kept` columns but the own one.
        step = 1 + generator.choice(len(names) - 1, kept, replace=False)
        drawn = (own + torch.from_numpy(step)) % len(names)
        found.others[at] = near.gather(1, drawn).numpy()
    return found


def unit(vectors: Floats) -> Floats:
    """Of length 1, as float32, [n, d]."""
    rows = np.asarray(vectors, dtype=np.float32)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-12))


def _count(near: Floats, score: Floats) -> tuple[Ints, Ints]:
    """Per row, columns above the score, and columns that equal it, the own one left out."""
    # Row by row: numpy counts one row of truth values ten times faster than torch or numpy a block.
    nearer = np.array([np.count_nonzero(row > one) for row, one in zip(near, score, strict=True)])
    equal = np.array([np.count_nonzero(row == one) for row, one in zip(near, score, strict=True)])
    return nearer, equal - 1


def _layers(gallery: Floats, patient: Ints) -> tuple[list[Tensor], Ints]:
    """Layers [patients, d], of patients with most windows first, and the patients' names."""
    names, inverse, counts = np.unique(patient, return_inverse=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")
    place = np.empty_like(most)
    place[most] = np.arange(len(most))
    order = np.argsort(place[inverse], kind="stable")  # by patient, most windows first
    counts = counts[most]
    firsts = np.cumsum(counts) - counts
    layers = [torch.from_numpy(gallery[order[firsts[counts > j] + j]])
              for j in range(int(counts.max(initial=0)))]
    return layers, names[most]


def _blocks(probes: Tensor, layers: list[Tensor]) -> Iterator[tuple[slice, Tensor]]:
    """Rows of probes, and their similarity to each patient, (b, patients)."""
    patients = len(layers[0]) if layers else 0
    size = max(1, _ELEMENTS // max(1, patients))
    for first in range(0, len(probes), size):
        block = probes[first : first + size]
        near = block @ layers[0].T  # (b, patients)
        for layer in layers[1:]:  # patients with fewer windows have dropped out
            part = near[:, : len(layer)]
            torch.maximum(part, block @ layer.T, out=part)
        yield slice(first, first + len(block)), near
