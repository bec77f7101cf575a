"""How well richness is carried over: the page says what was stored."""

import json

from paper import DOCS, RESULTS
from paper.richness import table


def test_page__stored_result__is_what_it_says():
    found = json.loads((RESULTS / "richness.json").read_text())
    assert {"command", "date", "seed", "versions", "machine"} <= set(found)
    assert table(found) in (DOCS / "maps.md").read_text()
