"""Texts: how they are cut into words, what is learned from training rows, and every odd row as documented."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.features.text import BagOfWords, TextTokens, as_texts, words_of
from hotvae.features.tokens import NOTHING, UNKNOWN

TRAIN = ["Wheat rose 2 pct", "wheat fell", "corn fell, and fell again"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("WHEAT, wheat; Wheat!", ["wheat"] * 3),
        ("5.81 mln on 22/02, 155,221 bags", ["#", "mln", "on", "#", "#", "#", "bags"]),
        ("don't rock 'n' roll", ["don't", "rock", "n", "roll"]),
        ("d’Ivoire", ["d'ivoire"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9"] * 2),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("snake_case B2B", ["snake", "case", "b", "#", "b"]),
        (" \t--- ", []),
        ("", []),
    ],
)
def test_words_of__text__is_cut_as_documented(text, words):
    assert words_of(text) == words


@pytest.mark.slow
@given(st.text())
def test_words_of__any_text__words_stay_the_same_when_read_again(text):
    words = words_of(text)
    assert words_of(" ".join(word.replace("#", "7") for word in words)) == words
    assert all(word and not word.isspace() for word in words)


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        np.array([["a"], ["b"]], dtype=object),
        pd.Series(["a", "b"], index=[7, 9]),
        pd.Series(["a", "b"], dtype="string"),
        pd.DataFrame({"body": ["a", "b"]}),
    ],
)
def test_as_texts__every_form_of_a_column__is_the_same_array(texts):
    found = as_texts(texts)
    assert found.dtype == object
    assert found.tolist() == ["a", "b"]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_as_texts__missing__is_empty_with_a_warning(missing):
    with pytest.warns(DataWarning, match=r"texts must not be missing; got none in 1 rows \(rows 1\)"):
        assert as_texts(["a", missing]).tolist() == ["a", ""]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("wheat rose", "texts must be a list or column with one entry per row; got one str"),
        (["a", 2, "b", 3], r"texts must be str; got 2 of type int \(rows 1, 3\)"),
        ([["a", "b"], ["c", "d"]], r"texts must be one column; got shape \(2, 2\)"),
        (np.eye(2), r"texts must be one column; got shape \(2, 2\)"),
    ],
)
def test_as_texts__no_column_of_text__error(texts, message):
    with pytest.raises(DataError, match=message):
        as_texts(texts)


# Words in order -------------------------------------------------------------------------------------------


def test_text_tokens__vocabulary__counts_texts_not_occurrences():
    """fell: 2 texts (4 occurrences), wheat: 2 texts; again, and, corn, pct, rose, #: 1 text each."""
    tokens = TextTokens(min_word_count=2).fit(TRAIN)
    assert tokens.words == ("fell", "wheat")
    everything = TextTokens(min_word_count=1).fit(TRAIN)
    assert everything.words == ("fell", "wheat", "#", "again", "and", "corn", "pct", "rose")
    assert TextTokens(min_word_count=1, max_words=3).fit(TRAIN).words == ("fell", "wheat", "#")
    assert everything.n_features_out == 8 + 3


def test_text_tokens__words_in_order__numbers_in_order():
    tokens = TextTokens().fit(TRAIN)
    rows = tokens.transform(["wheat fell", "fell wheat", "Wheat barley fell"])
    assert rows.padded().tolist() == [[4, 3, 0], [3, 4, 0], [4, UNKNOWN, 3]]


def test_text_tokens__empty_and_unknown__are_tokens_of_their_own():
    tokens = TextTokens().fit(TRAIN)
    with pytest.warns(DataWarning, match="texts must not be missing"):
        rows = tokens.transform(["", "...", None, "barley oats"])
    assert rows.padded().tolist() == [[NOTHING, 0]] * 3 + [[UNKNOWN, UNKNOWN]]


def test_text_tokens__longer_than_allowed__keeps_the_beginning():
    tokens = TextTokens(max_tokens=3, min_word_count=1).fit(["a b c d e", "a b"])
    assert tokens.transform(["e d c b a"]).lengths.tolist() == [3]
    assert tokens.transform(["e d c b a"]).tokens.tolist() == tokens.transform(["e d c"]).tokens.tolist()


@pytest.mark.parametrize("kind", [TextTokens, BagOfWords])
def test_vocabulary__other_rows_and_other_order__is_that_of_the_training_rows(kind):
    """A word of rows that were not shown is unknown, and the order of the rows shown does not count."""
    assert kind().fit(TRAIN).words == kind().fit(TRAIN[::-1]).words
    tokens = kind(min_word_count=1).fit(TRAIN)
    state = tokens.state()
    tokens.transform(["barley barley", "barley oats"])
    assert tokens.state() == state
    assert "barley" not in tokens.words


@pytest.mark.parametrize("kind", [TextTokens, BagOfWords])
def test_vocabulary__nothing_to_learn__error(kind):
    with pytest.raises(
        DataError, match=r"none occurs in 2 of them; got 2 texts with 2 different words. Lower min_word"
    ):
        kind().fit(["wheat", "corn"])
    with pytest.raises(DataError, match="texts must have rows"):
        kind().fit([])
    with pytest.raises(ConfigError, match="vocabulary must be fitted before use"):
        kind().transform(["wheat"])
    for name in ("min_word_count", "max_words"):
        with pytest.raises(ConfigError, match=f"{name} must be a whole number of at least 1; got 0"):
            kind(**{name: 0}).fit(TRAIN)


def test_text_tokens__no_tokens_allowed__error():
    with pytest.raises(ConfigError, match=r"max_tokens must be a whole number of at least 1; got 2\.5"):
        TextTokens(max_tokens=2.5).fit(TRAIN)


@given(st.lists(st.text("abé ,1'", max_size=12), min_size=1, max_size=8), st.data())
def test_text_tokens__any_rows__same_bits_through_json_and_in_any_company(texts, data):
    tokens = TextTokens(min_word_count=1).fit([*texts, "a b é"])
    again = TextTokens.from_state(json.loads(json.dumps(tokens.state())))
    rows = tokens.transform(texts)
    np.testing.assert_array_equal(again.transform(texts).tokens, rows.tokens)
    assert again.n_features_out == tokens.n_features_out
    one = data.draw(st.integers(0, len(texts) - 1))
    np.testing.assert_array_equal(tokens.transform([texts[one]]).tokens, rows[np.array([one])].tokens)


# Bags -----------------------------------------------------------------------------------------------------


def test_bag__two_texts__matches_hand_calculation():
    """a in 2 of 2 texts: weight 1 + ln(3/3) = 1; b in 1: 1 + ln(3/2) = 1.405465. Text "a b b": (1, (1 + ln 2) 1.405465)

    = (1, 2.379660), length sqrt(1 + 5.662780) = 2.581236: (0.387411, 0.921907).
    """
    bag = BagOfWords(min_word_count=1).fit(["a b b", "a"])
    assert bag.words == ("a", "b")
    found = bag.transform(["a b b", "a z", "z"], dtype=np.float64).toarray()
    np.testing.assert_allclose(found, [[0.387411, 0.921907], [1, 0], [0, 0]], atol=1e-6)


@given(st.lists(st.text("abcde ", min_size=1, max_size=12), min_size=3, max_size=8))
def test_bag__any_texts__equals_the_vectoriser_of_scikit_learn(texts):
    texts = [*texts, "a b c", "a c d"]
    rival = TfidfVectorizer(tokenizer=words_of, token_pattern=None, sublinear_tf=True, min_df=2).fit(texts)
    bag = BagOfWords().fit(texts)
    assert set(bag.words) == set(rival.vocabulary_)
    order = [rival.vocabulary_[word] for word in bag.words]
    np.testing.assert_allclose(
        bag.transform(texts, np.float64).toarray(), rival.transform(texts).toarray()[:, order], rtol=1e-12, atol=0
    )


def test_bag__binary__ones_for_words_that_are_there():
    bag = BagOfWords("binary").fit(TRAIN)
    found = bag.transform(["wheat wheat fell", "Fell", "barley", ""])
    assert found.toarray().tolist() == [[1, 1], [1, 0], [0, 0], [0, 0]]
    assert found.dtype == np.float32


def test_bag__unknown_weights__error():
    with pytest.raises(ConfigError, match="weights must be one of 'tfidf', 'binary'; got 'bm25'"):
        BagOfWords("bm25").fit(TRAIN)


@given(st.lists(st.text("abé ,1'", max_size=12), min_size=1, max_size=8))
def test_bag__through_json__same_bits(texts):
    bag = BagOfWords(min_word_count=1).fit([*texts, "a b é"])
    again = BagOfWords.from_state(json.loads(json.dumps(bag.state())))
    one, two = bag.transform(texts), again.transform(texts)
    assert one.data.tobytes() == two.data.tobytes()
    np.testing.assert_array_equal(one.indices, two.indices)


@pytest.mark.parametrize("kind", [TextTokens, BagOfWords])
@pytest.mark.parametrize("change", [{"words": [1, 2]}, {"words": "fell"}, {"max_words": 0}])
def test_from_state__damaged__refused(kind, change):
    state = kind().fit(TRAIN).state()
    with pytest.raises(ModelError, match="text state must be complete"):
        kind.from_state({**state, **change})
    with pytest.raises(ModelError, match="text state must be complete; got KeyError"):
        kind.from_state({key: value for key, value in state.items() if key != "words"})


def test_from_state__bag_with_weights_of_other_words__refused():
    state = BagOfWords().fit(TRAIN).state()
    with pytest.raises(ModelError, match="one weight per word; got 1 for 2 words"):
        BagOfWords.from_state({**state, "rarity": [1.0]})
