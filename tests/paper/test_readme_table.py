"""The README's table says what is stored, and compares like with like."""

from paper import readme_table as page
from paper.store import Store


def test_readme__table__is_that_of_the_stored_results():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.render(text, Store(page.RESULTS)) == text


def line(seed, **joint):
    return {"cell": {"seed": seed}, "joint": joint}


def test_set_row__rivals__count_with_the_same_fits():
    good, bad, better = ({"given_0": x, "given_50": x, "nll_row": 10 * x} for x in (0.2, 0.4, 0.1))
    groups = {
        ("hotvae", "breeding_birds_2009", 0): [line(0, **good), line(1, **good)],
        ("mpvae", "breeding_birds_2009", 0): [line(0, **bad), line(1, **bad)],
        ("probit", "breeding_birds_2009", 0): [line(0, **better)],  # one seed is missing
    }
    row = page.set_row(groups, "breeding_birds_2009")
    assert row[1:3] == ["**0.2000**", "0.4000 (MPVAE)"]
    assert row[5:] == ["**2.00**", "4.00 (MPVAE)"]
    groups["chains", "breeding_birds_2009", 0] = [line(seed, **better) for seed in (0, 1)]
    assert page.set_row(groups, "breeding_birds_2009")[1:3] == ["0.2000", "0.1000 (chains)"]  # behind: not bold
    assert page.set_row({}, "breeding_birds_2009") is None
