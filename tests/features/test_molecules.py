"""Molecules: the grammar of SMILES, atoms in order, atoms and bonds, elements, and what cannot be read."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.features.molecules import ELEMENTS, MAX_NEIGHBOURS, AtomTokens, ElementPresence, atoms_of, readable_smiles
from hotvae.features.tokens import NOTHING, UNKNOWN

try:
    import rdkit
except ImportError:
    rdkit = None
BONDS = pytest.mark.skipif(rdkit is None, reason="RDKit is not installed: pip install rdkit")
DATA = os.environ.get("HOTVAE_DATA_DIR")


@pytest.mark.parametrize(
    ("smiles", "atoms"),
    [
        ("CCO", "C C O"),
        ("BrC(Cl)(F)I", "Br C Cl F I"),
        ("c1ccc2[nH]ccc2c1", "c c c c n c c c c"),
        ("C[N+](C)(C)CC(=O)[O-]", "C N+ C C C C O O-"),
        ("[Na+].[Cl-]", "Na+ Cl-"),
        ("[Fe+2].[Fe++].[O--]", "Fe+2 Fe+2 O-2"),
        ("[13CH3][C@@H](N)C(=O)O", "C C N C O O"),
        ("N[C@]12C/C=C\\1CC%12CC%122", "N C C C C C C C C"),
        ("[H][H]", "H H"),
        ("[Pt@SP1](Cl)(Cl)(N)N", "Pt Cl Cl N N"),
        ("c1cc[se]c1", "c c c se c"),
        ("*C[CH2:7]", "* C C"),
        (" CC ", "C C"),
        ("CSc1nncs1", "C S c n n c s"),
    ],
)
def test_atoms_of__smiles__gives_elements_aromaticity_and_charges(smiles, atoms):
    assert [str(atom) for atom in atoms_of(smiles)] == atoms.split()


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C(C", r"'\(' without '\)' in 'C\(C'"),
        ("CC)C", r"'\)' without '\(' at place 2"),
        ("C1CC", "ring bond '1' without a partner"),
        ("C%12CC1", "ring bond '1' without a partner"),
        ("CXC", "'X' at place 1"),
        ("C[Xx]", "no element 'Xx' at place 1"),
        ("C[zz]", "no element 'zz' at place 1"),
        ("C[NH", r"'\[' at place 1"),
        ("=CC", "'=' before the first atom"),
        ("(C)", r"'\(' before the first atom"),
        ("aspirin", "'a' at place 0"),
        ("", "no atom"),
    ],
)
def test_atoms_of__no_smiles__error_says_where(smiles, reason):
    with pytest.raises(DataError, match=f"SMILES must follow its grammar; got .*{reason}"):
        atoms_of(smiles)


def test_elements__all__are_118():
    assert len(ELEMENTS) == len(set(ELEMENTS)) == 118
    assert (ELEMENTS[5], ELEMENTS[25], ELEMENTS[78], ELEMENTS[-1]) == ("C", "Fe", "Au", "Og")


def test_readable_smiles__some_unreadable__blank_and_named_with_their_rows():
    message = r"got 'X' at place 0 in 'XYZ'. 2 such molecules \(rows 1, 3\) are taken as unknown"
    with pytest.warns(DataWarning, match=message):
        assert readable_smiles(["CC", "XYZ", "", "C("]).tolist() == ["CC", "", "", ""]
    with pytest.raises(DataError, match=r"SMILES must be str; got 4 of type int \(rows 1\)"):
        readable_smiles(["CC", 4])
    with pytest.warns(DataWarning, match=r"SMILES must not be missing; got none in 1 rows \(rows 0\)"):
        assert readable_smiles(pd.Series([None, "C"])).tolist() == ["", "C"]


# Atoms in order -------------------------------------------------------------------------------------------


def test_atom_tokens__in_order__numbers_of_kinds_in_order():
    reader = AtomTokens().fit(["CCO", "c1ccccc1[O-]"])
    assert reader.atoms == ("C", "O", "O-", "c")
    assert reader.n_features_out == 7
    assert reader.transform(["OCC", "[O-]c", "CN"]).padded().tolist() == [[4, 3, 3], [5, 6, 0], [3, UNKNOWN, 0]]


def test_atom_tokens__unreadable_or_missing__is_the_unknown_molecule():
    reader = AtomTokens().fit(["CCO"])
    with pytest.warns(DataWarning, match=r"1 such molecules \(rows 1\) are taken as unknown"):
        assert reader.transform(["CO", "C(("]).padded().tolist() == [[3, 4], [NOTHING, 0]]
    assert reader.transform([""]).tokens.tolist() == [NOTHING]


def test_atom_tokens__longer_than_allowed__keeps_the_beginning():
    assert AtomTokens(max_tokens=2).fit(["CCO"]).transform(["OCC"]).tokens.tolist() == [4, 3]


@pytest.mark.parametrize("kind", [AtomTokens, ElementPresence])
def test_molecules__nothing_to_learn__error(kind):
    with (
        pytest.raises(DataError, match="SMILES must hold a molecule that can be read; got none"),
        pytest.warns(DataWarning, match="such molecules"),
    ):
        kind().fit(["C(", ""])
    with pytest.raises(ConfigError, match="transformer must be fitted before use"):
        kind().transform(["C"])


def test_atom_tokens__impossible_settings__error():
    with pytest.raises(ConfigError, match="bonds must be True or False; got 1"):
        AtomTokens(bonds=1).fit(["C"])
    with pytest.raises(ConfigError, match="max_tokens must be a whole number of at least 1; got 0"):
        AtomTokens(max_tokens=0).fit(["C"])


# Atoms and bonds ------------------------------------------------------------------------------------------


@BONDS
def test_atom_tokens__bonds__kinds_tell_hydrogens_and_parts_tell_neighbours():
    """Acetic acid CC(=O)O: atoms CH3, C, O, OH; the second is bonded to the three others."""
    reader = AtomTokens(bonds=True).fit(["CC(=O)O"])
    assert reader.atoms == ("C", "CH3", "O", "OH")
    rows = reader.transform(["CC(=O)O"]).padded()
    assert rows.shape == (1, 4, 1 + MAX_NEIGHBOURS)
    assert rows[0, :, :4].tolist() == [[4, 2, 0, 0], [3, 1, 3, 4], [5, 2, 0, 0], [6, 2, 0, 0]]
    assert not rows[0, :, 4:].any()


@BONDS
def test_atom_tokens__bonds_of_a_ring_and_a_salt__aromatic_closed_and_apart():
    rows = AtomTokens(bonds=True).fit(["c1ccccc1.[Na+]"])
    assert rows.atoms == ("Na+", "cH")
    tokens = rows.transform(["c1ccccc1.[Na+]"]).padded()[0]
    assert [sorted(set(token[1:].tolist()) - {0}) for token in tokens] == [
        *([2, 6], [1, 3], [2, 4], [3, 5], [4, 6], [1, 5]),
        [],
    ]


@BONDS
def test_atom_tokens__bonds_of_unreadable_or_cut_molecules__as_documented():
    reader = AtomTokens(bonds=True, max_tokens=2).fit(["CCO"])
    cut = reader.transform(["CCO"]).padded()[0]
    assert cut[:, 1:3].tolist() == [[2, 0], [1, 0]], "the bond to the third atom went with it"
    with pytest.warns(DataWarning, match=r"a molecule RDKit cannot read in 'C=\(C\)=\(C\)=C'"):
        unknown = reader.transform(["C=(C)=(C)=C"]).padded()
    assert unknown[0].tolist() == [[NOTHING, *[0] * MAX_NEIGHBOURS]]


@BONDS
def test_atom_tokens__bonds_written_in_another_order__same_atoms_and_bonds():
    """Kinds of bonded pairs do not depend on where the SMILES begins."""
    reader = AtomTokens(bonds=True).fit(["OC(=O)CN"])

    def pairs(smiles):
        tokens = reader.transform([smiles]).padded()[0]
        return sorted(tuple(sorted((int(t[0]), int(tokens[n - 1][0])))) for t in tokens for n in t[1:].tolist() if n)

    assert pairs("OC(=O)CN") == pairs("NCC(O)=O")
    assert pairs("OC(=O)CN") != pairs("NC(=O)CO")


def test_atom_tokens__bonds_without_rdkit__error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ConfigError, match=r"The extra 'molecules' of hotvae brings it: pip install 'rdkit"):
        AtomTokens(bonds=True).fit(["CSi"])


@BONDS
@pytest.mark.data
@pytest.mark.skipif(DATA is None, reason="HOTVAE_DATA_DIR is not set: no real molecules")
def test_atoms_of__drugs__same_elements_and_charges_as_rdkit():
    """RDKit folds hydrogens written as atoms into their neighbours: they are left out on both sides."""
    from rdkit import Chem, rdBase

    with np.load(Path(DATA) / "sider_elements.npz", allow_pickle=False) as file:
        molecules = [str(smiles) for smiles in file["smiles"]]
    with rdBase.BlockLogs():
        for smiles in molecules[::7]:
            read = [(a.GetSymbol(), a.GetFormalCharge()) for a in Chem.MolFromSmiles(smiles).GetAtoms()]
            ours = [(atom.symbol.capitalize(), atom.charge) for atom in atoms_of(smiles)]
            assert [a for a in ours if a[0] != "H"] == [a for a in read if a[0] != "H"]


# Elements -------------------------------------------------------------------------------------------------


def test_element_presence__molecules__ones_by_atomic_number():
    reader = ElementPresence().fit(["CCO", "c1ccccc1Cl", "[Na+].[OH-]"])
    assert reader.atoms == ("C", "O", "Na", "Cl")
    with pytest.warns(DataWarning, match=r"\(rows 2\) are taken as unknown"):
        found = reader.transform(["ClCCl", "BrO", "C(", "*"])
    assert found.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert reader.n_features_out == 4


@pytest.mark.data
@pytest.mark.skipif(DATA is None, reason="HOTVAE_DATA_DIR is not set: no real molecules")
def test_element_presence__drugs__equal_the_stored_table():
    with np.load(Path(DATA) / "sider_elements.npz", allow_pickle=False) as file:
        names, table, molecules = file["feature_names"], file["X"], file["smiles"]
    reader = ElementPresence().fit(molecules)
    assert list(reader.atoms) == [str(name) for name in names]
    np.testing.assert_array_equal(reader.transform(molecules), table)


# State ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reader", [AtomTokens(max_tokens=9), pytest.param(AtomTokens(bonds=True), marks=BONDS), ElementPresence()]
)
def test_state__through_json__same_bits(reader):
    molecules = ["CCO", "c1ccccc1Cl", "C[N+](C)(C)C"]
    reader.fit(molecules[:2], feature_names=["drug"])
    again = type(reader).from_state(json.loads(json.dumps(reader.state())))
    assert again.state() == reader.state()
    assert again.n_features_out == reader.n_features_out
    one, two = (getattr(part.transform(molecules), "tokens", part.transform(molecules)) for part in (reader, again))
    np.testing.assert_array_equal(one, two)
    with pytest.raises(ModelError, match="molecule state must be complete; got KeyError"):
        type(reader).from_state({key: value for key, value in reader.state().items() if key != "atoms"})
