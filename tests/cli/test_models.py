"""``hotvae models``."""

from hotvae.estimators.registry import CLASSIFIERS


def test_models__text__a_heading_and_three_lines_each(run):
    code, out, err = run("models")
    assert (code, err) == (0, "")
    *cards, command = [part for part in out.split("\n") if part]
    assert len(cards) == 4 * len(CLASSIFIERS)
    assert [line.split()[0] for line in cards[::4]] == list(CLASSIFIERS)
    assert [line.split()[0] for line in cards[1:4]] == ["takes:", "cost:", "citation:"]
    assert command.startswith("hotvae train my_table.csv ")
