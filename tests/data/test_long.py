"""Long tables: records of species at sites."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotvae import read_table
from hotvae.data.long import LongColumns, count_of, guess_long, long_columns, presences
from hotvae.data.tables import read_long, read_with_roles
from hotvae.errors import ConfigError, DataError

RECORDS = pd.DataFrame(
    {
        "plot": ["A", "A", "B", "C", "C"],
        "taxon": ["owl", "wren", "owl", "frog", "owl"],
        "n": ["2", "X", "0", "", "3"],
        "depth": [1.5, 1.5, 2.0, 3.0, 3.0],
        "observer": ["me", "you", "me", "me", "me"],
    }
)
SITES = pd.DataFrame({"plot": ["B", "A", "D", "C"], "depth": [2.0, 1.5, 9.0, 3.0]})


def by_loops(records, sites):
    """Presence of every species at every site, one record after the other."""
    species = sorted({name for _, name, _ in records})
    found = {(site, name): 0 for site in sites for name in species}
    for site, name, count in records:
        if count is None or count > 0:
            found[site, name] = 1
    return [[found[site, name] for name in species] for site in sites]


def test_read_table__long__what_has_no_record_is_absent():
    data, roles = read_with_roles(RECORDS, long="plot,taxon,n")
    assert data.label_names == ("frog", "owl", "wren")
    assert data.row_names.tolist() == ["A", "B", "C"]
    np.testing.assert_array_equal(data.labels, [[0, 1, 1], [0, 0, 0], [1, 1, 0]])  # X and nothing are there, 0 is not
    assert data.feature_names == ("depth",)
    assert roles.left_out == {"plot": "row ids", "observer": "differs between records of a site"}
    assert roles.notes[0] == "long table: site 'plot', species 'taxon', count 'n'"
    assert roles.notes[1].startswith("no table of visited sites: a site was visited if it has any record (3 sites)")
    assert roles.notes[2] == "5 records of 3 species at 3 sites, 1 without any"


def test_read_table__long_with_sites__a_site_without_records_is_empty():
    data = read_table(RECORDS, long="plot,taxon,n", sites=SITES)
    assert data.row_names.tolist() == ["B", "A", "D", "C"]
    np.testing.assert_array_equal(data.labels, [[0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 0]])
    assert data.features["depth"].tolist() == [2.0, 1.5, 9.0, 3.0]
    turned = read_table(SITES, label_table=RECORDS, id_column="plot", long="auto")
    np.testing.assert_array_equal(turned.labels, data.labels)
    assert turned.label_names == data.label_names
    some = read_table(RECORDS, long="plot,taxon,n", sites=SITES, labels="owl,f*")
    assert some.label_names == ("frog", "owl")


@given(
    st.lists(
        st.tuples(st.sampled_from("ABC"), st.sampled_from(["x", "y", "z"]), st.sampled_from([None, 0, 1, 7])),
        min_size=1,
    )
)
def test_presences__any_records__equal_a_loop(records):
    frame = pd.DataFrame(records, columns=["site", "species", "count"])
    sites = pd.Index(["C", "A", "B", "D"])
    labels, lost = presences(frame, LongColumns("site", "species", "count"), sites)
    assert lost == 0
    np.testing.assert_array_equal(labels.to_numpy(), by_loops(records, sites))


def test_read_table__long_table_without_labels__is_seen_to_be_one(tmp_path):
    RECORDS.to_csv(tmp_path / "records.csv", index=False)
    data, roles = read_with_roles(tmp_path / "records.csv")
    assert data.n_labels == 3
    assert roles.notes[0] == "long table: site 'plot', species 'taxon', count 'n' (guessed)"


def test_read_table__numbers_as_sites__match_across_files(tmp_path):
    (tmp_path / "records.csv").write_text("site,species\n1,owl\n02,wren\n")
    (tmp_path / "sites.csv").write_text("site,depth\n02,2\n1,1.5\n3,4\n")
    data = read_table(tmp_path / "records.csv", long="site,species", sites=tmp_path / "sites.csv")
    np.testing.assert_array_equal(data.labels, [[0, 1], [1, 0], [0, 0]])


def test_read_table__records_of_unknown_sites__refused_or_left_out():
    strange = pd.concat([RECORDS, RECORDS.iloc[:2].assign(plot="Q")])
    with pytest.raises(
        DataError, match=r"sites of records must be in the table of visited sites; got 1 .* such as 'Q'"
    ):
        read_table(strange, long="plot,taxon,n", sites=SITES)
    data, roles = read_with_roles(strange, long="plot,taxon,n", sites=SITES, join="inner")
    assert data.n_samples == 4
    assert "join inner: 2 records of sites that were not visited are left out" in roles.notes


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["Site ID", "Species", "Abundance"], ("Site ID", "Species", "Abundance")),
        (
            ["eventID", "scientificName", "individualCount", "locality"],
            ("eventID", "scientificName", "individualCount"),
        ),
        (["plot_id", "taxon", "date"], ("plot_id", "taxon", None)),
        (["checklist_id", "common_name", "observation_count"], ("checklist_id", "common_name", "observation_count")),
    ],
)
def test_guess_long__names_people_give__are_found(columns, found):
    guess = guess_long(columns)
    assert (guess.site, guess.species, guess.count) == found
    assert guess.guessed
    assert str(guess).endswith("(guessed)")


def test_long_columns__that_do_not_fit__are_named():
    assert guess_long(["depth", "sp_owl", "sp_wren"]) is None
    with pytest.raises(DataError, match="long table must have a column of sites and one of species; got 'a', 'b'"):
        long_columns(["a", "b"], "auto")
    with pytest.raises(DataError, match=r"must have the column\(s\) 'taxa'; got none of that name \(close: 'taxon'\)"):
        long_columns(list(RECORDS), "plot,taxa,n")
    for wrong in ("plot", "plot,taxon,n,depth", "plot,plot"):
        with pytest.raises(ConfigError, match="long must name site, species and perhaps count"):
            long_columns(list(RECORDS), wrong)


def test_read_table__records_that_do_not_fit__are_named():
    with pytest.raises(
        DataError, match=r"counts must be numbers, X, present or absent; got 'some' in column 'n' \(rows 0\)"
    ):
        read_table(RECORDS.assign(n=["some", "1", "1", "1", "1"]), long="plot,taxon,n")
    with pytest.raises(DataError, match=r"counts must be 0 or more; got -1 in column 'n' \(rows 1\)"):
        read_table(RECORDS.assign(n=[1, -1, 1, 1, 1]), long="plot,taxon,n")
    with pytest.raises(
        DataError, match=r"every record must have a site and a species; got missing ones in column 'taxon' \(rows 1, 4"
    ):
        read_table(RECORDS.assign(taxon=["a", None, "b", "a", " "]), long="plot,taxon,n")
    with pytest.raises(DataError, match="visited sites must stand once in their table; got 'A' more than once"):
        read_table(RECORDS, long="plot,taxon,n", sites=pd.concat([SITES, SITES.iloc[1:2]]))
    with pytest.raises(ConfigError, match="sites must be left out with a table of labels; got both"):
        read_table(SITES, label_table=RECORDS, sites=SITES, long="auto", id_column="plot")
    with pytest.raises(ConfigError, match="join must be one of 'exact', 'inner'; got 'outer'"):
        read_table(RECORDS, long="auto", join="outer")


def test_label_table__long_without_saying_so__is_told_what_to_do():
    with pytest.raises(
        DataError, match=r"ids must be unique to join tables; got 'A', 'C' .*Pass long='plot,taxon,n'\. Only true"
    ):
        read_table(SITES, label_table=RECORDS, id_column="plot")


def test_read_long__species_without_records__are_absent():
    sites, labels, joined_by = read_long(RECORDS, long="plot,taxon,n", sites=SITES, labels=["owl", "heron"])
    assert joined_by == "plot"
    assert labels["heron"].tolist() == [0, 0, 0, 0]
    assert labels["plot"].tolist() == sites["plot"].tolist()


def test_count_of__words__mean_what_they_say():
    assert [count_of(cell) for cell in (" Present", "ABSENT", "yes", "no", "x", "0", "12")] == [1, 0, 1, 0, 1, 0, 12]
    assert np.isnan(count_of("few"))


def test_read_table__records_alone__asks_for_the_table_of_sites():
    records = pd.DataFrame({"site": ["A", "A", "B"], "species": ["owl", "wren", "owl"], "count": [1, 2, 1]})
    with pytest.raises(DataError, match=r"records must come with what is known of their sites.*table of visited sites"):
        read_table(records, long="auto")
    with pytest.raises(DataError, match="'observer' differ within a site"):
        read_table(records.assign(observer=["x", "y", "x"]), long="auto")
