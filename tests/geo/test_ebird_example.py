"""Virtual eBird files: the same for the same seed, and as awkward as real ones."""

from collections import Counter

import pytest

from hotvae.errors import ConfigError
from hotvae.geo.ebird_example import EBD_COLUMNS, SAMPLING_COLUMNS, species_name, write_example
from tests.geo.ebird_reference import lines_of


def test_write_example__same_seed__same_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = (write_example(tmp_path / name, n_checklists=50, random_state=1) for name in "ab")
    assert first.ebd.read_bytes() == second.ebd.read_bytes()
    assert first.sampling.read_bytes() == second.sampling.read_bytes()
    other = write_example(tmp_path / "b", n_checklists=50, random_state=2)
    assert other.ebd.read_bytes() != first.ebd.read_bytes()


def test_write_example__files__have_what_makes_real_ones_awkward(tmp_path):
    found = write_example(tmp_path, n_checklists=500, n_species=12)
    events, records = list(lines_of(found.sampling)), list(lines_of(found.ebd))
    assert (len(events), len(records)) == (found.n_checklists, found.n_observations)
    assert [name for name in events[0] if name] == list(SAMPLING_COLUMNS)
    assert [name for name in records[0] if name] == list(EBD_COLUMNS)
    assert {"species", "issf", "spuh"} == {line["CATEGORY"] for line in records}
    assert "X" in {line["OBSERVATION COUNT"] for line in records}
    assert {"0", "1"} == {line["ALL SPECIES REPORTED"] for line in events}
    assert "" in {line["DURATION MINUTES"] for line in events if line["PROTOCOL NAME"] == "Traveling"}
    sizes = Counter(line["GROUP IDENTIFIER"] for line in events if line["GROUP IDENTIFIER"])
    assert min(sizes.values()) >= 2
    shared = {line["SAMPLING EVENT IDENTIFIER"]: line for line in events}
    for line in records:
        event = shared[line["SAMPLING EVENT IDENTIFIER"]]
        assert all(line[name] == event[name] for name in SAMPLING_COLUMNS[:-1])


def test_write_example__by_size__is_that_large(tmp_path):
    found = write_example(tmp_path, gigabytes=0.002)
    assert 2e6 <= found.ebd.stat().st_size < 2e7


def test_species_name__first_hundreds__are_different():
    assert len({species_name(i) for i in range(700)}) == 700


def test_write_example__settings_that_do_not_fit__are_named(tmp_path):
    with pytest.raises(ConfigError, match="size must be n_checklists or gigabytes; got both"):
        write_example(tmp_path, n_checklists=1, gigabytes=1)
    with pytest.raises(ConfigError, match="bounds must be west, south, east, north in degrees"):
        write_example(tmp_path, bounds=(1, 2, 0, 3))
