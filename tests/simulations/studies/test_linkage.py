"""The linkage study: what stands in its tables, and that finished cells are kept."""

import pytest
from typer.testing import CliRunner

import fedrean
from common.errors import InputError
from simulations import population
from simulations.studies import linkage
from simulations.studies.linkage import cells, study, table_non_unique, table_risk, table_superset
from simulations.studies.linkage_page import write_page


@pytest.fixture
def small(monkeypatch):
    """A registry of which national populations are drawn in no time."""
    monkeypatch.setattr(population, "REGISTRANTS", 50_000)
    yield
    linkage._tristate.cache_clear()
    linkage._national.cache_clear()


def test_a_study_its_page_and_how_it_goes_on(small, tmp_path):
    told = []
    results = study(tmp_path, 40_000, 0, False, told.append)
    assert len(told) == 3 * (6 + 4 + 1) and told[0] == "tristate 10000 A"
    rows = table_non_unique(results)
    assert [row[0] for row in rows] == ["10,000", "20,000", "40,000"]
    ours, paper, apart = rows[2][7:10]
    assert paper == "0.796" and float(ours) == pytest.approx(0.796, rel=0.25)
    assert float(apart) == pytest.approx(100 * (float(ours) / 0.796 - 1), abs=1)
    assert table_risk(results) == table_superset(results) == []
    page = write_page(tmp_path, results).read_text()
    assert page.count("synthetic people, not a voter registry") == 5  # one a panel
    again = []
    study(tmp_path, 40_000, 0, False, again.append)
    assert again == []
    with pytest.raises(InputError, match="holds a study of"):
        study(tmp_path, 40_000, 1, False, again.append)


def test_registers_that_hold_more_people_tell_less(small):
    made = {name: cell() for name, cell in cells(400_000, 0, False).items()
            if name.startswith(("superset-100000", "national-100000"))}
    told = [made[f"superset-100000-{times}"]["reidentified"] for times in (1, 2, 3, 4)]
    assert told == sorted(told, reverse=True) and told[3] > 0
    assert told[0] == made["national-100000-B"]["reidentified"]


def test_a_size_out_of_range_is_refused(tmp_path):
    result = CliRunner().invoke(fedrean.app, ["study", "linkage", "--largest", "9999",
                                              "--run-dir", str(tmp_path / "a")])
    assert isinstance(result.exception, InputError)
    assert "largest is 9999; allowed: 10000" in str(result.exception)
