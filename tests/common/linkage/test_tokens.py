"""Names, tokens, files and matching: what is equal, what is refused, what an answer says."""

import string
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InputError
from common.linkage.matching import Site, match
from common.linkage.names import normalise
from common.linkage.token_file import TOKENS as TOKEN_FILE
from common.linkage.token_file import Header, read, write
from common.linkage.tokens import TOKENS, key_id, person, read_key, token

KEY, OTHER = b"k" * 32, b"o" * 32
ANN = person("Ann", "O'Neill", "1990-05-09", "F", "32801-1234", "x 7")


@pytest.mark.parametrize(("one", "two"), [
    ("O'Neill-Müller, Jr.", "oneill muller"), ("José", "JOSE"), ("Łukasz", "lukasz"),
    ("Straße", "strasse"), ("van der Berg III", "Vanderberg"), ("Ø", "o"), ("  ", "")])
def test_spellings_of_one_name(one, two):
    assert normalise(one) == normalise(two)


def test_a_suffix_alone_is_a_name_and_other_scripts_are_refused_without_being_printed():
    assert normalise("Sr") == "SR"
    with pytest.raises(InputError, match="4 letters that are not Latin .cyrillic") as refused:
        normalise("Иван")
    assert "Иван" not in str(refused.value)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20))
def test_normalising_twice_changes_nothing(text):
    try:
        once = normalise(text)
    except InputError:
        return
    assert normalise(once) == once and set(once) <= set(string.ascii_uppercase)


@pytest.mark.parametrize(("kind", "same", "other"), [
    ("A", {"first": "Anne", "zip5": "99999"}, {"gender": "M"}),
    ("B", {"first": "Alice"}, {"last": "Oneal"}),
    ("C", {"born": "1950-01-01", "gender": "M", "zip5": "32899"}, {"zip5": "33101"}),
    ("D", {"gender": "M"}, {"zip5": "32802"}),
    ("E", {"gender": "M", "zip5": "10001"}, {"born": "1990-05-10"}),
    ("F", {"first": "Alice", "gender": "M"}, {"born": "1990-05-10"}),
    ("P", {"zip5": "10001", "gender": ""}, {"first": "Anne"}),
    ("I", {"zip5": "", "stable": "X7"}, {"stable": "x8"}),
])
def test_what_a_token_is_made_of(kind, same, other):
    own = {"first": "Ann", "last": "O'Neill", "born": "1990-05-09", "gender": "F",
           "zip5": "32801", "stable": "x7"}
    assert token(kind, person(**own | same), KEY) == token(kind, ANN, KEY)
    assert token(kind, person(**own | other), KEY) != token(kind, ANN, KEY)
    assert len(token(kind, ANN, KEY)) == 64 and token(kind, ANN, KEY) != token(kind, ANN, OTHER)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_missing_attribute_gives_no_token(kind):
    assert token(kind, person("", "", "", "", ""), KEY) == ""
    assert token(kind, person("Ann", "", "1990-05-09", "F", "32801", "x7"), KEY) == ""


@pytest.mark.parametrize(("values", "line"), [
    (("A", "B", "09.05.1990", "F", "1"), "date of birth is no date; allowed: YYYY-MM-DD"),
    (("A", "B", "1800-01-01", "F", "1"), "outside 1880-01-01"),
    (("A", "B", "1990-01-01", "X", "1"), "gender is none of"),
    (("A", "B", "1990-01-01", "F", "ABCDE"), "ZIP code is none"),
])
def test_malformed_attributes_are_refused_without_being_printed(values, line):
    with pytest.raises(InputError, match=line) as refused:
        person(*values)
    assert values[2] not in str(refused.value) and "ABCDE" not in str(refused.value)


def test_a_key_is_long_and_its_owners_alone(tmp_path):
    file = tmp_path / "key"
    with pytest.raises(InputError, match="cannot be read"):
        read_key(file)
    file.write_bytes(b"short")
    file.chmod(0o600)
    with pytest.raises(InputError, match="5 bytes; at least 32"):
        read_key(file)
    file.write_bytes(KEY)
    file.chmod(0o640)
    with pytest.raises(InputError, match="mode 640; allowed .* chmod 600"):
        read_key(file)
    file.chmod(0o600)
    assert read_key(file) == KEY and key_id(KEY) != key_id(OTHER) and len(key_id(KEY)) == 16


def site(name, tokens, **header):
    own = {"study": "s", "token": "P", "key": "k"} | header
    return Site.of(Header(site=name, **own), [(f"{name}{i}", f"{t:064x}")
                                              for i, t in enumerate(tokens)])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=1, max_size=5),
       st.integers(1, 4))
def test_everybody_is_kept_at_as_many_hospitals_as_may_be(hospitals, most):
    sites = [site(f"h{i}-", tokens) for i, tokens in enumerate(hospitals)]
    answers = match(sites, most)
    where = defaultdict(set)
    for one in sites:
        keep = answers[one.header.site]
        assert set(keep) == set(one.token_of)
        for handle, kept in keep.items():
            if kept:
                where[one.token_of[handle]].add(one.header.site)
            for other, also in keep.items():  # equal tokens in one hospital go together
                if one.token_of[other] == one.token_of[handle]:
                    assert also == kept
    for value in {t for tokens in hospitals for t in tokens}:
        at = sum(value in tokens for tokens in hospitals)
        assert len(where[f"{value:064x}"]) == min(at, most)


def test_who_is_dropped_is_drawn():
    kept = {match([site("a", [1]), site("b", [1])], 1)["a"]["a0"] for _ in range(64)}
    assert kept == {True, False}


@pytest.mark.parametrize(("sites", "line"), [
    ([site("a", [1]), site("b", [1], key="z")], "key is 'k' at a and 'z' at b"),
    ([site("a", [1]), site("b", [1], token="D")], "token is 'P' at a and 'D' at b"),
    ([site("a", [1]), site("b", [1], study="t")], "study is 's' at a and 't' at b"),
    ([site("a", [1]), site("a", [1])], "site 'a' is given twice"), ([], "0 token files")])
def test_sites_that_do_not_fit_are_refused(sites, line):
    with pytest.raises(InputError, match=line):
        match(sites, 1)
    with pytest.raises(InputError, match="sites is 0"):
        match([site("a", [1])], 0)


@pytest.mark.parametrize(("rows", "line"), [
    ([("h", "0" * 64)] * 2, "handle 'h' is there twice"), ([("h", "0")], "not 64 hexadecimal"),
    ([], "site a has 0 tokens")])
def test_rows_that_are_none_are_refused(rows, line):
    with pytest.raises(InputError, match=line):
        Site.of(Header("s", "a", "P", "k"), rows)


def test_a_file_comes_back_and_another_is_refused(tmp_path):
    file, header = tmp_path / "t.csv", Header("s", "a", "P", "k")
    write(file, TOKEN_FILE, header, ("handle", "token"), [("h", "x")])
    assert read(file, TOKEN_FILE, ("handle", "token")) == (header, [["h", "x"]])
    text = file.read_text()
    for old, new, line in (("tokens", "others", "no fedrean-tokens file"),
                           ('"version": 1', '"version": 2', "version 2; allowed: 1"),
                           ("handle,token", "a,b", "columns"), ("h,x", "h", "line 3 has 1 values"),
                           ('"site": "a"', '"site": "../a"', "site is '../a'"),
                           ('"study"', '"studio"', "keys studio")):
        file.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=line):
            read(file, TOKEN_FILE, ("handle", "token"))
