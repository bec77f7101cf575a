"""The text of ARFF files: quotes that are letters, quotes that are not closed, and how much work a long field is."""

from pathlib import Path

import pytest

from hotvae.data.formats import arff
from hotvae.data.formats.arff import parse_arff
from hotvae.errors import DataError

SOURCE = Path("ponds.arff")


def column(field, kind="string", name="note"):
    """Read a table whose last column is this field."""
    frame = parse_arff(f"@attribute depth numeric\n@attribute {name} {kind}\n@data\n1.5,{field}\n", SOURCE)
    assert frame["depth"].tolist() == [1.5]
    return frame[frame.columns[1]].tolist()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("O'Brien", "O'Brien"),
        ("'O'Brien'", "O'Brien"),
        ('6" pipe', '6" pipe'),
        ("dogs' bones", "dogs' bones"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("rock 'a, b' roll", "rock 'a, b' roll"),
        ("'a, b'", "a, b"),
        (r"'it\'s, they said'", "it's, they said"),
        ('"O\'Brien, 5"', "O'Brien, 5"),
        ("'it''s'", "it''s"),
        ("''", ""),
    ],
)
def test_field__with_quotes__is_read_whole(field, text):
    assert column(field) == [text]


def test_levels__with_a_quote_inside__are_read_whole():
    assert column("O'Brien", "{O'Brien, 'de la Cruz, J.', Li}") == ["O'Brien"]
    assert column("'de la Cruz, J.'", "{O'Brien, 'de la Cruz, J.', Li}") == ["de la Cruz, J."]


def test_sparse_row__with_quotes__is_read_whole():
    text = "@attribute a numeric\n@attribute b string\n@attribute c string\n@data\n{0 2, 1 'x, y', 2 O'Brien}\n"
    frame = parse_arff(text, SOURCE)
    assert frame.iloc[0].tolist() == [2.0, "x, y", "O'Brien"]


def test_number__with_a_quote_inside__is_refused_and_named():
    with pytest.raises(DataError, match=r"column 'depth' must hold numbers; got \"1'500\" \(line 3 of 'ponds.arff'\)"):
        parse_arff("@attribute depth numeric\n@data\n1'500\n", SOURCE)


@pytest.mark.parametrize("field", ["'no end", "word 'no end", '"no end', "'ends in a backslash\\'"])
def test_quote__without_its_pair__is_refused_with_its_line(field):
    with pytest.raises(DataError, match=r"a quote must have its pair; got .* \(line 4 of 'ponds.arff'\)"):
        column(field)


@pytest.mark.parametrize("field", ["x" * 50_000 + "'s", "'" + "x" * 50_000 + "'", "x'" * 25_000, "x 'y' " * 10_000])
def test_long_field__every_character__is_looked_at_once(field, monkeypatch):
    spans = []

    class Counted:
        def match(self, text, place):
            found = original.match(text, place)
            spans.append(found.span())
            return found

    original = arff._ARFF_TOKEN
    monkeypatch.setattr(arff, "_ARFF_TOKEN", Counted())
    assert len(arff._split(f"1.5,{field},2")) == 3
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert sum(end - start for start, end in spans) == len(field) + 6


def test_long_field__that_is_no_field__is_refused_after_one_look(monkeypatch):
    looks = []

    class Counted:
        def match(self, text, place):
            looks.append(place)
            return original.match(text, place)

    original = arff._ARFF_TOKEN
    monkeypatch.setattr(arff, "_ARFF_TOKEN", Counted())
    with pytest.raises(ValueError, match="must have its pair"):
        arff._split("1,'" + "x" * 50_000)
    assert looks == [0, 1, 2]
