"""The measurement of the explorer: the page shows what was stored."""

import json

import pytest

from paper import RESULTS
from paper.speed import explorer
from paper.summaries import replace_marked


@pytest.mark.parametrize(
    ("name", "file", "write"),
    [("speed", "explorer.json", explorer.page_text), ("birds", "explorer_birds.json", explorer.birds_text)],
)
def test_page__numbers__are_the_stored_ones(name, file, write):
    found = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    page = explorer.PAGE.read_text(encoding="utf-8")
    assert replace_marked(page, name, f"\n{write(found)}\n") == page


def test_longest_task__of_the_page__is_not_that_of_a_worker():
    threads = [(1, "CrRendererMain"), (2, "DedicatedWorker thread")]
    events = [{"pid": 7, "tid": tid, "name": "thread_name", "args": {"name": name}} for tid, name in threads]
    for tid, microseconds in ((1, 12_340), (1, 8_000), (2, 90_000)):
        events.append({"pid": 7, "tid": tid, "name": "ThreadControllerImpl::RunTask", "tdur": microseconds})
    assert explorer.longest_task(json.dumps({"traceEvents": events})) == 12.3
