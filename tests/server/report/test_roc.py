"""The report's membership section: what it says of n, and which curves it draws."""

import jinja2
import numpy as np
import pytest

from common.audits.rates import rates
from common.results import to_plain
from server.report import page
from server.report.roc import rocs
from server.report.table import cell, prose


def found(patients, windows=20, gap=1.0):
    patient = np.repeat(np.arange(patients), windows)
    member = patient >= patients // 4
    score = np.random.default_rng(0).normal(size=len(patient)) + gap * member
    names = np.arange(patients)
    tree = {"patient": rates(score[::windows], member[::windows], names),
            "window": rates(score, member, patient)}
    tree["hospitals"] = {"A": {"members": 1, "non_members": 0, "auc": tree["patient"]["auc"]}}
    return to_plain({"diagnosis": {"rmia": tree, "lira": tree}, "sex": {"rmia": tree}})


def section(tree, privacy="none"):
    config = {"audit": {"references": 4, "shadows": 16}, "privacy": {"unit": privacy}}
    metrics = {"membership": tree, "membership_references": tree, "data": {"A": {}},
               "config": config}
    loader = jinja2.FileSystemLoader(page.Path(page.__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True,
                                     undefined=jinja2.StrictUndefined)
    figure = rocs(tree)
    return [environment.get_template(f"sections/{name}.html").render(
        metrics=metrics, cell=cell, prose=prose, roc={name: figure})
        for name in ("membership", "membership_references")]


@pytest.mark.parametrize(("patients", "words"), [
    (12, "With 3 non-members (60 windows of theirs) the lowest false positive rate"),
    (4, "With 1 non-member no false positive rate below 1 can be seen"),
])
def test_the_page_says_what_n_allows(patients, words):
    for text in section(found(patients)):
        assert words in " ".join(text.split())
        assert "diagnosis, lira, per window" in text and "sex, rmia, per patient" in text
        assert "<svg" in text
    assert ("seen is .333 per patient" in " ".join(text.split())) == (patients == 12)


def test_the_page_says_that_references_learnt_without_noise():
    assert "without the noise" in section(found(12), "window")[1]
    assert "without the noise" not in section(found(12))[1]


def test_nothing_to_attack_is_said_so():
    for text in section({}):
        assert "none of whose members" in text and "<svg" not in text


def test_a_panel_for_each_model_and_unit_on_logarithmic_axes():
    drawn = rocs(found(12))
    for model in ("diagnosis", "sex"):
        for unit in ("patient", "window"):
            assert f"{model}, per {unit}" in drawn
    assert "guessing" in drawn and "lira" in drawn
    assert rocs(found(1)) == ""
