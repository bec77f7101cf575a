"""Molecules written as SMILES: a sequence of atoms, a graph of atoms and bonds, or the elements that are there.

Our own reader knows the grammar of SMILES (atoms, brackets, branches, ring bonds) but no chemistry. RDKit, an optional
extra, reads bonds. It does not read the atoms too, since the two disagree on some texts (``CCO name``, ``[#6]``,
``C()C``): a model would depend on whether RDKit is installed.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hotvae.config import how_to_install, require_count, require_flag
from hotvae.errors import ConfigError, DataError, DataWarning, listed
from hotvae.features.text import as_texts
from hotvae.features.tokens import NOTHING, UNKNOWN, TokenRows
from hotvae.features.transformer import RowTransformer

MAX_NEIGHBOURS = 8
"""Bonds of an atom that are kept; more are found in a few metal complexes only."""

ELEMENTS = tuple(
    re.findall(
        "[A-Z][a-z]?",
        "HHeLiBeBCNOFNeNaMgAlSiPSClArKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrKrRbSrYZrNbMoTcRuRhPdAgCdInSnSbTeIXeCsBa"
        "LaCePrNdPmSmEuGdTbDyHoErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoAtRnFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLrRfDbSgBh"
        "HsMtDsRgCnNhFlMcLvTsOg",
    )
)
"""Symbols of the elements, by atomic number."""

# Elements whose symbol may be written in small letters, which says that the atom is aromatic.
_AROMATIC = frozenset({"b", "c", "n", "o", "p", "s", "se", "as", "te", "si"})
_PIECE = re.compile(
    r"\[(?P<isotope>\d+)?(?P<bracket>[A-Z][a-z]?|[a-z]{1,2}|\*)(?:@{1,2}(?:[A-Z]{2}\d+)?)?(?P<hydrogens>H\d*)?"
    r"(?P<charge>\++\d*|-+\d*)?(?::\d+)?\]"
    r"|(?P<plain>Br|Cl|[BCNOPSFI]|[bcnops]|\*)"
    r"|(?P<ring>%\d\d|%\(\d+\)|\d)"
    r"|(?P<sign>[-=#$:/\\~.()])"
)


class Atom(NamedTuple):
    """One atom as a SMILES writes it.

    Attributes
    ----------
    symbol : str
        Of the element, in small letters where the atom is aromatic; ``*`` is any atom.
    charge : int
        In elementary charges.
    """

    symbol: str
    charge: int = 0

    def __str__(self) -> str:
        return _atom_name(self.symbol, self.charge)


def atoms_of(smiles: str) -> list[Atom]:
    """Read the atoms of a SMILES in the order in which they are written.

    Hydrogens that are not written as atoms, isotopes, handedness and atom classes are left out. The grammar is
    checked (brackets, branches, ring bonds, elements), valences are not.

    Parameters
    ----------
    smiles : str
        One molecule, or several joined by dots.

    Raises
    ------
    DataError
        Saying where the text stops being a SMILES.
    """
    text = smiles.strip()
    atoms: list[Atom] = []
    open_rings: set[str] = set()
    depth = place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:
            raise _unreadable(smiles, f"{text[place]!r} at place {place}")
        symbol = piece["bracket"] or piece["plain"]
        if symbol:
            if symbol != "*" and symbol not in _AROMATIC and symbol not in ELEMENTS:
                raise _unreadable(smiles, f"no element {symbol!r} at place {place}")
            atoms.append(Atom(symbol, _charge(piece["charge"])))
        elif not atoms:
            raise _unreadable(smiles, f"{piece[0]!r} before the first atom")
        elif piece["ring"]:
            open_rings ^= {piece["ring"].strip("%()").lstrip("0") or "0"}
        elif piece["sign"] in "()":
            depth += 1 if piece["sign"] == "(" else -1
            if depth < 0:
                raise _unreadable(smiles, f"')' without '(' at place {place}")
        place = piece.end()
    if not atoms:
        raise _unreadable(smiles, "no atom")
    if depth:
        raise _unreadable(smiles, "'(' without ')'")
    if open_rings:
        raise _unreadable(smiles, f"ring bond {min(open_rings)!r} without a partner")
    return atoms


def readable_smiles(values: Any, bonds: bool = False) -> NDArray[np.object_]:
    """Check SMILES and blank those that cannot be read.

    Parameters
    ----------
    values : sequence, Series, array or one-column DataFrame of str
        One molecule per row.
    bonds : bool
        Whether RDKit, which also checks valences, is to read them.

    Returns
    -------
    ndarray of object of shape (n_samples,)
        Molecules that cannot be read are the empty str; a warning names their rows.
    """
    texts = as_texts(values, "SMILES")
    parse = _graph_of if bonds else atoms_of
    reasons: dict[int, str] = {}
    for row, text in enumerate(texts):
        if not text.strip():
            texts[row] = ""
            continue
        try:
            parse(text)
        except DataError as error:
            reasons[row] = str(error)
            texts[row] = ""
    if reasons:
        warnings.warn(
            f"{next(iter(reasons.values()))} {len(reasons)} such molecules (rows {listed(reasons)}) "
            "are taken as unknown.",
            DataWarning,
            stacklevel=2,
        )
    return texts


class _Molecules(RowTransformer):
    """What transformers of molecules share: one column of SMILES, and kinds of atoms learned from training rows."""

    kinds = ("categorical",)
    is_sparse = False
    is_column = True
    stored_as = "molecule"
    bonds = False
    atoms: tuple[str, ...] = ()

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_flag("bonds", self.bonds)
        require_count("max_tokens", getattr(self, "max_tokens", 1))

    def read_column(self, column: Any) -> NDArray[np.object_]:
        """Return SMILES; those that cannot be read are empty, and a warning names their rows."""
        return readable_smiles(column, self.bonds)

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Learn which atoms there are; refuse rows without any molecule that can be read."""
        self.check_parameters()
        molecules = [smiles for smiles in readable_smiles(features, self.bonds) if smiles]
        if not molecules:
            raise DataError("SMILES must hold a molecule that can be read; got none among the training rows.")
        self.atoms = tuple(self._sorted({atom for smiles in molecules for atom in self._kinds_of(smiles)}))
        self.feature_names_in = tuple(feature_names or ("smiles",))
        return self

    def _learned(self) -> dict[str, Any]:
        return {"atoms": list(self.atoms)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.atoms = tuple(state["atoms"])

    def _kinds_of(self, smiles: str) -> Iterable[str]:
        return (str(atom) for atom in atoms_of(smiles))

    def _sorted(self, atoms: set[str]) -> list[str]:
        return sorted(atoms)

    def _fitted_smiles(self, features: Any) -> NDArray[np.object_]:
        if not self.atoms:
            raise ConfigError("transformer must be fitted before use; got none. Call fit with training rows.")
        return readable_smiles(features, self.bonds)


class AtomTokens(_Molecules):
    """Turn molecules into their atoms, in the order of the SMILES or joined by their bonds.

    The kinds of atoms are learned from the rows given to `fit`, which must be training rows only; an atom of
    another kind becomes one and the same unknown atom. A molecule that cannot be read, or is missing, is a single token
    that says so; a warning names its row.

    Parameters
    ----------
    bonds : bool
        False: a kind of atom is its element, aromatic or not, with its charge, and tokens follow the SMILES.
        True (needs RDKit): a kind also tells its hydrogens, which stand in for the orders of its bonds, and each
        token has 1 + :data:`MAX_NEIGHBOURS` parts, its kind and the places of the atoms it is bonded to, counted
        from 1; 0 is no atom. How the SMILES is written then does not matter.
    max_tokens : int
        Most atoms of a molecule; the first ones written are kept.

    Attributes
    ----------
    atoms : tuple of str
        Kinds of atoms; kind ``i`` is token ``i + 3``.

    Examples
    --------
    >>> molecules = AtomTokens().fit(["CCO", "CC=O"])
    >>> molecules.atoms
    ('C', 'O')
    >>> molecules.transform(["OCN", ""]).padded()
    array([[4, 3, 2],
           [1, 0, 0]], dtype=int32)
    """

    gives = "ordered tokens"

    def __init__(self, bonds: bool = False, max_tokens: int = 300) -> None:
        self.bonds = bonds
        self.max_tokens = max_tokens

    @property
    def n_features_out(self) -> int:
        """Token numbers in use."""
        return UNKNOWN + 1 + len(self.atoms)

    def _kinds_of(self, smiles: str) -> Iterable[str]:
        return _graph_of(smiles)[0] if self.bonds else super()._kinds_of(smiles)

    def transform(self, features: Any, dtype: DTypeLike = np.int32) -> TokenRows:
        """Look up the atoms of molecules; ``dtype`` has no meaning for tokens, which have several parts with bonds."""
        lookup = {atom: number + UNKNOWN + 1 for number, atom in enumerate(self.atoms)}
        none = [0] * MAX_NEIGHBOURS
        rows: list[list[Any]] = []
        for smiles in self._fitted_smiles(features):
            if not smiles:
                rows.append([[NOTHING, *none] if self.bonds else NOTHING])
            elif self.bonds:
                kinds, neighbours = _graph_of(smiles)
                kept = [[n + 1 for n in places if n < self.max_tokens][:MAX_NEIGHBOURS] for places in neighbours]
                rows.append(
                    [
                        [lookup.get(kind, UNKNOWN), *places, *none[len(places) :]]
                        for kind, places in zip(kinds[: self.max_tokens], kept, strict=False)
                    ]
                )
            else:
                rows.append([lookup.get(kind, UNKNOWN) for kind in self._kinds_of(smiles)][: self.max_tokens])
        return TokenRows.from_lists(rows)


class ElementPresence(_Molecules):
    """Turn molecules into rows of 0 and 1: which elements they have.

    The columns are the elements of the training molecules, by atomic number; elements that only other molecules have
    are left out. Hydrogens count where they are written as atoms of their own. A molecule that cannot be read, or is
    missing, is a row of zeros.

    Attributes
    ----------
    atoms : tuple of str
        The columns that come out.

    Examples
    --------
    >>> molecules = ElementPresence().fit(["CCO", "c1ccccc1Cl"])
    >>> molecules.atoms
    ('C', 'O', 'Cl')
    >>> molecules.transform(["ClCCN"])
    array([[1., 0., 1.]], dtype=float32)
    """

    @property
    def n_features_out(self) -> int:
        """Columns that come out."""
        return len(self.atoms)

    def _kinds_of(self, smiles: str) -> Iterable[str]:
        return (atom.symbol.capitalize() for atom in atoms_of(smiles) if atom.symbol != "*")

    def _sorted(self, atoms: set[str]) -> list[str]:
        return sorted(atoms, key=ELEMENTS.index)

    def transform(self, features: Any, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Find the elements of molecules."""
        column = {element: number for number, element in enumerate(self.atoms)}
        molecules = self._fitted_smiles(features)
        out = np.zeros((len(molecules), len(self.atoms)), dtype=dtype)
        for row, smiles in enumerate(molecules):
            for element in self._kinds_of(smiles) if smiles else ():
                if element in column:
                    out[row, column[element]] = 1
        return out


@lru_cache(maxsize=10_000)  # checked, learned from and transformed: a molecule is asked for several times in a row
def _graph_of(smiles: str) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Kinds of the atoms of a molecule, and the places of the atoms that each is bonded to."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise ConfigError(
            f"bonds must be False where RDKit is absent; got True. {how_to_install('rdkit', 'molecules')}"
        ) from error
    with rdBase.BlockLogs():  # what it cannot read is told in a warning of ours
        molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or molecule.GetNumAtoms() == 0:
        raise _unreadable(smiles, "a molecule RDKit cannot read")
    kinds, neighbours = [], []
    for atom in molecule.GetAtoms():
        symbol = atom.GetSymbol().lower() if atom.GetIsAromatic() else atom.GetSymbol()
        kinds.append(_atom_name(symbol, atom.GetFormalCharge(), atom.GetTotalNumHs()))
        neighbours.append(tuple(other.GetIdx() for other in atom.GetNeighbors()))
    return tuple(kinds), tuple(neighbours)


def _atom_name(symbol: str, charge: int, n_hydrogens: int = 0) -> str:
    hydrogens = "" if n_hydrogens == 0 else f"H{n_hydrogens if n_hydrogens > 1 else ''}"
    sign = "" if charge == 0 else f"{'+' if charge > 0 else '-'}{abs(charge) if abs(charge) > 1 else ''}"
    return f"{symbol}{hydrogens}{sign}"


def _charge(text: str | None) -> int:
    if not text:
        return 0
    sign = 1 if text[0] == "+" else -1
    digits = text.strip("+-")
    return sign * (int(digits) if digits else len(text))


def _unreadable(smiles: str, reason: str) -> DataError:
    shown = smiles if len(smiles) <= 40 else f"{smiles[:37]}..."
    return DataError(f"SMILES must follow its grammar; got {reason} in {shown!r}.")
