"""A probe tells what lies in embeddings: of strangers only what people of one kind share."""

import numpy as np

from common.audits.probing import linear_probe

PEOPLE, WINDOWS = 60, 8


def embeddings(shared: float, seed: int = 0, d: int = 16):
    """Each person's own place, and a direction that tells sex by `shared`."""
    generator = np.random.default_rng(seed)
    patient = np.repeat(np.arange(PEOPLE), WINDOWS)
    sex = patient % 2
    own = generator.normal(size=(PEOPLE, d))
    own[:, 0] += shared * (2 * (np.arange(PEOPLE) % 2) - 1)
    rows = own[patient] + 0.05 * generator.normal(size=(len(patient), d))
    return rows.astype(np.float32), sex, patient


def told(rows, sex, patient):
    gallery = np.arange(len(patient)) % 2 == 0
    return linear_probe(rows[gallery], sex[gallery], patient[gallery], rows[~gallery],
                        sex[~gallery], patient[~gallery], 2)


def test_what_people_share_is_told_of_strangers():
    found = told(*embeddings(5.0))
    assert found["enrolled"].value == 1 and found["strangers"].value > 0.95


def test_without_it_only_who_is_enrolled_is_known():
    values = [told(*embeddings(0.0, seed, d=64)) for seed in range(5)]
    assert min(one["enrolled"].value for one in values) > 0.95
    assert 0.3 < np.mean([one["strangers"].value for one in values]) < 0.7


def test_unknown_labels_are_neither_learned_nor_asked():
    rows, sex, patient = embeddings(5.0)
    hidden = np.where(patient < 20, -1, sex)
    found = told(rows, hidden, patient)
    assert found["enrolled"].n == found["strangers"].n == 40 * WINDOWS // 2
    nothing = told(rows, np.full_like(sex, -1), patient)
    assert nothing["enrolled"].n == 0 and np.isnan(nothing["strangers"].value)
    one_kind = told(rows, np.zeros_like(sex), patient)
    assert one_kind["enrolled"].n == 0
