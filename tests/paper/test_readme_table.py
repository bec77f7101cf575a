"""The README's table says what is stored."""

from paper import readme_table as page
from paper.store import Store


def test_readme__table__is_that_of_the_stored_results():
    text = page.PAGE.read_text()
    assert page.render(text, Store(page.RESULTS)) == text


def test_results_table__every_set__has_the_network_without_decoder_beside_hotvae():
    rows = [line.split(" | ") for line in page.results_table(Store(page.RESULTS)).splitlines()[2:]]
    with_model = {title: {row[0].split(",")[0] for row in rows if row[1] == title} for title in page.MODELS.values()}
    assert with_model["HOT-VAE"]
    assert with_model["no label decoder"] == with_model["HOT-VAE"]


def test_number__share__has_no_leading_zero():
    assert page.number(0.4563) == ".456"
    assert page.number(1.0) == "1.000"
