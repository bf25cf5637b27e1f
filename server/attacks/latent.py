"""What the waveforms of each patient tell: who it is, and the sex and age that a stranger learns.

Who has recordings of a patient names the patient; who has none still learns sex and age, from
probes that saw other people only. Both beside what clean windows tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from common.audits.probing import of_strangers
from common.errors import InputError
from common.protocol import AGE_BANDS, SEXES
from common.training import seed_from
from server.attacks.case import Case
from server.attacks.embeddings import ENCODERS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
VERSIONS = ("clean", "released")
_LEAST = 1e-3  # probability: no single window settles it


@dataclass(frozen=True)
class Told:
    """Of one version of the windows, for each patient.

    Args:
        identity: whether an attacker who knows recordings of all patients names this one, [k].
        sex: log-probabilities of `SEXES`, from other people's recordings, [k, 2].
        age: the same of `AGE_BANDS`, [k, 5].
    """

    identity: NDArray[np.bool_]
    sex: Floats
    age: Floats


@dataclass(frozen=True)
class Evidence:
    """Patients with released test windows, known sex and known age.

    Args:
        sex, age: indices of `SEXES` and `AGE_BANDS`, [k].
        enrolled: patients among whom one is named.
        told: by version of the windows.
    """

    sex: Ints
    age: Ints
    enrolled: int
    told: dict[str, Told]


def evidence(case: Case) -> Evidence:
    """Ask the auditor's networks; missing ones are trained.

    Clean windows are judged by attackers that know clean ones, released windows by those that were
    retrained on releases. A patient's windows answer together.

    Raises:
        InputError: too few patients of known sex and age to learn these from strangers.
    """
    bundles = case.bundles
    rows = bundles.released_rows("test")
    rows = rows[(bundles.sex[rows] >= 0) & (bundles.age[rows] >= 0)]
    patients, first, inverse = np.unique(bundles.patient[rows], return_index=True,
                                         return_inverse=True)
    too_few = InputError(f"sex and age are known of {len(patients)} patients with released "
                         "windows; needed are 5 or more, of both sexes and of several ages")
    if not len(patients):
        raise too_few
    pairs = ENCODERS["metric"](case)[1]
    told = {}
    for version, network, windows, pair in (
            ("clean", case.attacker, bundles.clean, pairs["clean"]),
            ("released", case.retrained, bundles.released, pairs["retrained"])):
        names = log_softmax(network.answers(windows[rows])["reid"], axis=1)
        enrolled = bundles.released_rows("train")
        case.progress(f"sex and age of strangers by {version} windows")
        learned = [_of_patients(np.log(np.maximum(_LEAST, of_strangers(
            pair.enrolled[enrolled], label[enrolled], bundles.patient[enrolled],
            pair.probes[rows], label[rows], bundles.patient[rows], len(values),
            seed_from(case.settings, "auditor", "probe") % 2**32))), inverse)
            for label, values in ((bundles.sex, SEXES), (bundles.age, AGE_BANDS))]
        if any(np.isnan(part).any() for part in learned):
            raise too_few
        told[version] = Told(_of_patients(names, inverse).argmax(1) == patients, *learned)
    return Evidence(bundles.sex[rows][first], bundles.age[rows][first],
                    len(np.unique(bundles.patient)), told)


def _of_patients(scores: Floats, inverse: Ints) -> Floats:
    """Mean over the windows of each patient, [k, classes]."""
    size = np.bincount(inverse)
    return np.stack([np.bincount(inverse, column) / size for column in scores.T], axis=1)
