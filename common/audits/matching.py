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

_ELEMENTS = 1 << 19  # of a block of similarities: 1 MiB, which stays in a core's cache
_COLUMNS = 4096  # of a block, at most


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
    order = np.argsort(column, kind="stable")  # so that a block's own patients lie together
    memory = torch.empty(2, 0)
    # Only equal embeddings are equally near, and all are to one that is 0: counting costs a pass.
    ties = _repeated(gallery) or not unit(probe).any(1).all()
    size = _ELEMENTS // _COLUMNS
    for first in range(0, len(rows), size):
        at = order[first : first + size]
        widest = max(int(column[at[-1]] - column[at[0]]) + 1, _COLUMNS)
        if memory.shape[1] < len(at) * widest:
            memory = torch.empty(2, len(at) * widest)
        probes = torch.from_numpy(unit(probe[rows[at]]))
        # One shift for all probes of a block: any `kept` columns but the own one.
        step = 1 + generator.choice(max(1, len(names) - 1), kept, replace=False)
        wanted = (column[at, None] + step) % len(names)
        found.own[at], nearer, equal, found.others[at] = _block(
            probes, layers, column[at], wanted, memory, ties)
        found.rank[at] = nearer + generator.integers(0, equal + 1)
    return found


def _block(probes: Tensor, layers: list[Tensor], own: Ints, wanted: Ints,
           memory: Tensor, ties: bool) -> tuple[Floats, Ints, Ints, Floats]:
    """Of each probe: own similarity, patients nearer, others as near, and the wanted columns'.

    Args:
        probes: (b, d).
        layers: of `_layers`.
        own: column of each probe's patient, ascending, [b].
        wanted: columns, [b, m].
        memory: of `_near`.
        ties: whether others may be exactly as near.
    """
    score = np.zeros(len(own), np.float32)
    nearer, equal = np.zeros(len(own), np.int64), np.zeros(len(own), np.int64)
    taken = np.zeros(wanted.shape, np.float32)
    for number, (start, stop) in enumerate(_ranges(own, layers[0].shape[1])):
        near = _near(probes, layers, start, stop, memory)
        if not number:  # the own patients' columns come first
            score = near[np.arange(len(own)), own - start]
        nearer += _count(near > score[:, None])
        if ties:
            equal += _count(near == score[:, None])
        i, j = np.nonzero((wanted >= start) & (wanted < stop))
        taken[i, j] = near[i, wanted[i, j] - start]
    return score, nearer, np.maximum(equal - 1, 0), taken


def _ranges(own: Ints, patients: int) -> Iterator[tuple[int, int]]:
    """Ranges of columns that cover all patients once, the own ones in the first."""
    first, last = int(own[0]), int(own[-1]) + 1
    last = min(patients, max(last, first + _COLUMNS))
    yield first, last
    for low, high in ((0, first), (last, patients)):
        for start in range(low, high, _COLUMNS):
            yield start, min(start + _COLUMNS, high)


def _near(probes: Tensor, layers: list[Tensor], start: int, stop: int, memory: Tensor) -> Floats:
    """Similarity of probes (b, d) to the patients of some columns, [b, stop - start].

    The memory (2, elements) is written again by the next call: memory that is new costs as much as
    the product.
    """
    near = _product(probes, layers[0][:, start:stop], memory[0])
    for stack in layers[1:]:  # patients with fewer windows have dropped out
        if stack.shape[1] <= start:
            break
        part = near[:, : stack.shape[1] - start]
        torch.maximum(part, _product(probes, stack[:, start:stop], memory[1]), out=part)
    return near.numpy()


def _product(probes: Tensor, stack: Tensor, memory: Tensor) -> Tensor:
    """(b, d) x (layers, c, d) -> the largest of the layers, (b, c), in memory that is there."""
    layers, columns, d = stack.shape
    here = memory[: layers * columns * len(probes)]
    if layers == 1:
        return torch.mm(probes, stack[0].T, out=here.view(len(probes), columns))
    # Layers outermost, so that the largest is taken of whole arrays.
    every = torch.mm(stack.reshape(-1, d), probes.T, out=here.view(-1, len(probes)))
    return every.view(layers, columns, -1).amax(0).T.contiguous()



def unit(vectors: Floats) -> Floats:
    """Of length 1, as float32, [n, d]."""
    rows = np.asarray(vectors, dtype=np.float32)
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-12))


def _repeated(vectors: Floats) -> bool:
    """Whether two of the rows are equal."""
    return len({row.tobytes() for row in vectors}) < len(vectors)


def _count(true: NDArray[np.bool_]) -> Ints:
    """Truths of each row; numpy counts one row ten times faster than rows of a block."""
    return np.array([np.count_nonzero(row) for row in true], dtype=np.int64)


def _layers(gallery: Floats, patient: Ints) -> tuple[list[Tensor], Ints]:
    """Stacks [layers, patients, d], most windows first, and the names of all patients.

    A stack has several layers where there are few patients: small products are slow.
    """
    names, inverse, counts = np.unique(patient, return_inverse=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")
    place = np.empty_like(most)
    place[most] = np.arange(len(most))
    order = np.argsort(place[inverse], kind="stable")  # by patient, most windows first
    counts = counts[most]
    firsts = np.cumsum(counts) - counts
    layers = []
    size = max(1, _COLUMNS // max(1, len(names)))
    for first in range(0, int(counts.max(initial=0)), size):
        there = counts > first  # the others have dropped out
        turn = np.arange(first, min(first + size, int(counts.max())))
        # Who has fewer windows than the layers of a stack shows the first again: it does no harm.
        turn = np.where(turn < counts[there, None], turn, 0)  # (patients, layers)
        layers.append(torch.from_numpy(gallery[order[(firsts[there, None] + turn).T]]))
    return layers, names[most]
