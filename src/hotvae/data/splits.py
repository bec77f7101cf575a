"""Row splits: scikit-learn splitters for many labels and for places, and one three-way split.

For plain random or grouped folds use scikit-learn's own ``ShuffleSplit``, ``GroupKFold`` and
``GroupShuffleSplit``; this module has what it lacks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import KDTree
from scipy.stats import wasserstein_distance
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
from sklearn.utils import check_random_state

from hotvae.data.dataset import Dataset
from hotvae.data.places import check_degrees, on_sphere
from hotvae.errors import ConfigError, DataError, listed

Indices = NDArray[np.intp]
RandomState = int | np.random.RandomState | None

_DEFAULT_BLOCKS = 50


class _KFold(BaseCrossValidator):
    """K folds from one number of a fold per row."""

    n_splits: int

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        _check_n_splits(self.n_splits, least=2)
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Indices]:
        n_splits = self.get_n_splits()
        folds = self._folds(y, groups, n_splits)
        for fold in range(n_splits):
            yield np.flatnonzero(folds == fold)

    def _folds(self, y: Any, groups: Any, n_splits: int) -> Indices:
        """Return the fold of each row."""
        raise NotImplementedError


class MultilabelStratifiedKFold(_KFold):
    """K folds in which every label is about equally frequent (iterative stratification).

    Parameters
    ----------
    n_splits : int
        Number of folds.
    shuffle : bool
        Deal the rows in random order; otherwise in the order of the table.
    random_state : int, RandomState or None
        Seed of the shuffling.

    Notes
    -----
    Sechidis, Tsoumakas and Vlahavas (2011): the rarest label first, each of its rows goes to the fold that
    lacks this label most, ties to the fold that lacks the row's other labels most, then to the fold that
    lacks most rows. Fold sizes may therefore differ by a few rows. Labels that are not observed (NaN) are
    spread evenly as well. ``y`` may be a 0/1/NaN matrix, dense or sparse, or a 1-D array of classes.

    Examples
    --------
    >>> y = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> for train, test in MultilabelStratifiedKFold(2, shuffle=False).split(np.zeros((4, 1)), y):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2] [1 3]
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: RandomState = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def _folds(self, y: Any, groups: Any, n_splits: int) -> Indices:
        present = _presences(y)
        _check_enough(present.shape[0], n_splits, "rows")
        if not self.shuffle and self.random_state is not None:
            raise ConfigError(
                f"random_state must be None when shuffle=False; got {self.random_state}. Use shuffle=True."
            )
        random = check_random_state(self.random_state) if self.shuffle else None
        return _stratify(present, np.full(n_splits, 1 / n_splits), random)


class MultilabelStratifiedShuffleSplit(BaseShuffleSplit):
    """Random train and test parts in which every label is about equally frequent.

    Parameters
    ----------
    n_splits : int
        How many times to split anew.
    test_size : float
        Share of rows in the test part.
    random_state : int, RandomState or None
        Seed.

    Notes
    -----
    Iterative stratification as in :class:`MultilabelStratifiedKFold`, with parts of unequal size.

    Examples
    --------
    >>> y = np.tile([[1, 0], [0, 1]], (10, 1))
    >>> splitter = MultilabelStratifiedShuffleSplit(test_size=0.2, random_state=0)
    >>> (train, test), = splitter.split(np.zeros((20, 1)), y)
    >>> y[test].sum(axis=0)
    array([2, 2])
    """

    def __init__(self, n_splits: int = 1, *, test_size: float = 0.2, random_state: RandomState = None) -> None:
        super().__init__(n_splits=n_splits, test_size=test_size, random_state=random_state)

    def _iter_indices(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        _check_n_splits(self.n_splits, least=1)
        shares = _two_shares(self.test_size)
        present = _presences(y)
        _check_enough(present.shape[0], 2, "rows")
        random = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            yield _two_parts(_stratify(present, shares, random))


class SpatialBlockKFold(_KFold):
    """K folds of whole square blocks of land, so that test rows are not right beside training rows.

    By convention the coordinates, shape (n_samples, 2), are passed as ``groups``.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    block_size : float, optional
        Side of the blocks, in the units of the coordinates.
    n_blocks : int, optional
        Instead of a size, roughly how many blocks should cover the extent of the coordinates (default 50).
    degrees : bool
        As in :func:`spatial_blocks`.
    random_state : int, RandomState or None
        Seed of the assignment of blocks to folds.

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [0.4, 0.0], [1.2, 0.0], [2.5, 0.0]])
    >>> splitter = SpatialBlockKFold(3, block_size=1.0, random_state=0)
    >>> sorted(test.tolist() for _, test in splitter.split(places, groups=places))
    [[0, 1], [2], [3]]
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012 - scikit-learn's own protocol

    def __init__(
        self,
        n_splits: int = 5,
        *,
        block_size: float | None = None,
        n_blocks: int | None = None,
        degrees: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_splits = n_splits
        self.block_size = block_size
        self.n_blocks = n_blocks
        self.degrees = degrees
        self.random_state = random_state

    def _folds(self, y: Any, groups: Any, n_splits: int) -> Indices:
        blocks = _blocks_of_rows(groups, self.block_size, self.n_blocks, self.degrees)
        random = check_random_state(self.random_state)
        return _deal_groups(blocks, np.full(n_splits, 1 / n_splits), random, "blocks")


class DistanceMatchedKFold(_KFold):
    """K folds whose held-out rows are as far from the others as places to be predicted are from all rows.

    A score by blocks of any size answers for one distance. A map has places right beside a site and places far from
    all of them; folds that match these distances answer for this map (nearest-neighbour distance matching, as in the
    kNNDM of Linnenbrink and others 2024, https://doi.org/10.5194/gmd-17-5897-2024).

    By convention the coordinates of the rows, shape (n_samples, 2), are passed as ``groups``.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    target : array-like of shape (n_places, 2)
        Places to be predicted, or a sample of them, in the same units.
    degrees : bool
        The coordinates are longitude and latitude; distances are those on the round Earth, in kilometres.
    random_state : int, RandomState or None
        Seed of the assignment of blocks to folds.

    Notes
    -----
    Single rows dealt at random, and whole blocks of land of about a dozen sizes, are tried. Kept is what brings the
    distances of held-out rows to the nearest row of another fold closest to those of ``target`` to the nearest row:
    least in Wasserstein's distance, and the smaller blocks where two are equal. The answer can be no better than folds
    of blocks allow: places farther away than any two halves of the rows are not matched.

    Examples
    --------
    >>> rows = np.array([[x, y] for x in range(12) for y in range(12)], dtype=float)
    >>> splitter = DistanceMatchedKFold(3, target=rows + 0.5, random_state=0)
    >>> near = splitter.distances(rows)
    >>> splitter = DistanceMatchedKFold(3, target=rows + [15.0, 0.0], random_state=0)
    >>> far = splitter.distances(rows)
    >>> bool(near.mean() < 1.2 < far.mean())
    True
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012 - scikit-learn's own protocol

    def __init__(
        self, n_splits: int = 5, *, target: ArrayLike, degrees: bool = False, random_state: RandomState = None
    ) -> None:
        self.n_splits = n_splits
        self.target = target
        self.degrees = degrees
        self.random_state = random_state

    def distances(self, groups: ArrayLike) -> NDArray[np.float64]:
        """Distance of each row to the nearest one of another fold, for the folds that :meth:`split` makes.

        Parameters
        ----------
        groups : array-like of shape (n_samples, 2)
            Coordinates of the rows.
        """
        folds = self._folds(None, groups, self.get_n_splits())
        return _between_folds(self._ground(groups), folds)

    def _ground(self, places: Any) -> NDArray[np.float64]:
        """Places as points whose straight distances count."""
        found = np.asarray(places, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != 2 or not len(found) or not np.isfinite(found).all():
            raise DataError(
                f"places must be finite and have shape (n_places, 2); got shape {found.shape}. "
                "Give two coordinates a place."
            )
        if not self.degrees:
            return found
        check_degrees(found)
        return on_sphere(found)

    def _folds(self, y: Any, groups: Any, n_splits: int) -> Indices:
        if groups is None:
            raise DataError("groups must hold the coordinates, shape (n_samples, 2); got None. Pass them as groups.")
        rows = self._ground(groups)
        _check_enough(len(rows), n_splits, "rows")
        wanted = np.asarray(KDTree(rows).query(self._ground(self.target))[0])
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        shares = np.full(n_splits, 1 / n_splits)
        best, least = np.arange(len(rows)) % n_splits, np.inf
        sizes = np.unique(np.geomspace(2 * n_splits, max(2 * n_splits, len(rows) / 2), 12).astype(int))[::-1]
        for n_blocks in (None, *sizes.tolist(), n_splits):
            blocks = np.arange(len(rows))
            if n_blocks is not None:
                blocks = spatial_blocks(groups, n_blocks=n_blocks, degrees=self.degrees)
            if blocks.max() + 1 < n_splits:
                continue
            folds = _deal_groups(blocks, shares, np.random.RandomState(seed), "blocks")
            gap = float(wasserstein_distance(_between_folds(rows, folds), wanted))
            if gap < least:
                best, least = folds, gap
        return best


def spatial_blocks(
    coordinates: ArrayLike, block_size: float | None = None, *, n_blocks: int | None = None, degrees: bool = False
) -> NDArray[np.intp]:
    """Give each row the number of the square block of land it lies in.

    Parameters
    ----------
    coordinates : array-like of shape (n_samples, 2)
        Places, both axes in the same units.
    block_size : float, optional
        Side of the blocks, in the units of the coordinates.
    n_blocks : int, optional
        Instead of a size, roughly how many blocks should cover the extent of the coordinates. Blocks without
        rows are not numbered, so fewer may come back.
    degrees : bool
        The coordinates are longitude and latitude on the round Earth: blocks are equally wide on the ground, so the
        further from the equator the more degrees of longitude, and may lie across the date line. ``block_size``
        counts degrees of latitude, of 111 km.

    Returns
    -------
    ndarray of int, shape (n_samples,)
        Block numbers, 0 to the number of occupied blocks - 1.

    Raises
    ------
    ConfigError
        If not exactly one of the two is given, or it is not positive.
    DataError
        If the coordinates have another shape, are not finite, or cannot be degrees.

    Examples
    --------
    >>> spatial_blocks([[0.0, 0.0], [0.9, 0.4], [1.2, 0.4], [5.0, 5.0]], block_size=1.0)
    array([0, 0, 1, 2])
    >>> spatial_blocks([[179.9, 60.0], [-178.9, 60.0], [-177.9, 60.0]], block_size=1.0, degrees=True)
    array([0, 0, 1])
    """
    places = np.asarray(coordinates, dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or not len(places):
        raise DataError(f"coordinates must have shape (n_samples, 2); got {places.shape}.")
    if not np.isfinite(places).all():
        rows = np.flatnonzero(~np.isfinite(places).all(axis=1))
        raise DataError(f"coordinates must be finite; got NaN or infinity (rows {listed(rows)}).")
    if (block_size is None) == (n_blocks is None):
        raise ConfigError(
            f"exactly one of block_size and n_blocks must be given; got block_size={block_size}, n_blocks={n_blocks}."
        )
    if degrees:
        check_degrees(places)
        places = np.column_stack([_unrolled(places[:, 0]), places[:, 1]])
    corner = places.min(axis=0)
    if n_blocks is not None:
        if n_blocks < 1:
            raise ConfigError(f"n_blocks must be at least 1; got {n_blocks}.")
        extent = places.max(axis=0) - corner
        if degrees:
            extent[0] *= _mean_cosine(corner[1], corner[1] + extent[1])
        # On a thin strip the area is misleading: no more blocks than fit along its length.
        block_size = max(float(np.sqrt(extent.prod() / n_blocks)), float(extent.max()) / n_blocks) or 1.0
    if block_size is None or not 0 < block_size < np.inf:
        raise ConfigError(f"block_size must be larger than 0; got {block_size}.")
    cells = np.floor((places - corner) / block_size)
    if degrees:
        # Within a band of latitude, all degrees of longitude count as much as they do on average.
        south = corner[1] + block_size * cells[:, 1]
        shrunk = (places[:, 0] - corner[0]) * _mean_cosine(south, np.minimum(south + block_size, 90.0))
        cells[:, 0] = np.floor(shrunk / block_size)
    return np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the three parts of a data set: sorted, disjoint and together complete.

    Parameters
    ----------
    train, validation, test : ndarray of int
        Rows to learn from, to choose with, and to report on.
    """

    train: Indices
    validation: Indices
    test: Indices


def split_dataset(
    dataset: Dataset,
    *,
    kind: Literal["random", "stratified", "group", "block"] = "random",
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2),
    random_state: RandomState = 0,
    block_size: float | None = None,
    degrees: bool = False,
) -> Split:
    """Split a data set into rows for training, validation and test.

    Parameters
    ----------
    dataset : Dataset
        What to split.
    kind : {"random", "stratified", "group", "block"}
        Rows at random; with labels equally frequent in all parts; whole groups (``dataset.groups``); or whole
        square blocks of land (``dataset.coordinates``).
    fractions : tuple of 3 floats
        Shares of rows in training, validation and test; they sum to 1. A part with share 0 stays empty.
    random_state : int, RandomState or None
        Seed.
    block_size : float, optional
        Side of the blocks in the units of the coordinates; without it about 50 blocks cover the region.
    degrees : bool
        Whether the coordinates are longitude and latitude, as in :func:`spatial_blocks`.

    Returns
    -------
    Split
        Row numbers of the three parts.

    Raises
    ------
    ConfigError
        If the kind is unknown, needs what the data set lacks, or the fractions do not sum to 1.
    DataError
        If there are fewer rows, groups or blocks than parts.

    Examples
    --------
    >>> data = Dataset(features=np.arange(10.0)[:, None], labels=np.tile([[0], [1]], (5, 1)))
    >>> parts = split_dataset(data, random_state=0)
    >>> len(parts.train), len(parts.validation), len(parts.test)
    (6, 2, 2)
    """
    shares = _checked_fractions(fractions)
    random = check_random_state(random_state)
    if block_size is not None and kind != "block":
        raise ConfigError(f"block_size must go with a split by blocks; got {kind!r}. Leave it out, or use 'block'.")
    n_rows = len(dataset.labels)
    _check_enough(n_rows, int((shares > 0).sum()), "rows")
    if kind == "random":
        parts = np.empty(n_rows, dtype=np.intp)
        parts[random.permutation(n_rows)] = np.repeat(np.arange(len(shares)), _apportion(shares, n_rows))
    elif kind == "stratified":
        parts = _stratify(_presences(dataset.labels), shares, random)
    elif kind == "group":
        if dataset.groups is None:
            raise ConfigError(
                "a split by groups must have groups; got a table without. Name their column: --groups (groups)."
            )
        parts = _deal_groups(np.unique(dataset.groups, return_inverse=True)[1], shares, random, "groups")
    elif kind == "block":
        if dataset.coordinates is None:
            raise ConfigError(
                "a split by blocks must have coordinates; got a table without. "
                "Name two columns: --coordinates X,Y (coordinates)."
            )
        blocks = _blocks_of_rows(dataset.coordinates, block_size, None, degrees)
        parts = _deal_groups(blocks, shares, random, "blocks")
    else:
        raise ConfigError(f"kind must be 'random', 'stratified', 'group' or 'block'; got {kind!r}.")
    train, validation, test = (np.flatnonzero(parts == part) for part in range(3))
    return Split(train, validation, test)


def other_validation_rows(
    dataset: Dataset,
    split: Split,
    *,
    kind: Literal["random", "stratified", "group", "block"],
    random_state: RandomState,
    block_size: float | None = None,
) -> Split:
    """Draw as many other validation rows, out of all that are not for the test.

    Parameters
    ----------
    dataset : Dataset
        What was split.
    split : Split
        Its parts; test rows stay what they are.
    kind, random_state, block_size
        As in :func:`split_dataset`.

    Returns
    -------
    Split

    Examples
    --------
    >>> data = Dataset(features=np.arange(10.0)[:, None], labels=np.tile([[0], [1]], (5, 1)))
    >>> parts = split_dataset(data, random_state=0)
    >>> others = other_validation_rows(data, parts, kind="random", random_state=1)
    >>> parts.validation.tolist(), others.validation.tolist(), (others.test == parts.test).all()
    ([3, 7], [4, 7], np.True_)
    """
    rows = np.sort(np.concatenate([split.train, split.validation]))
    share = len(split.validation) / len(rows)
    drawn = split_dataset(
        dataset.take(rows),
        kind=kind,
        fractions=(1 - share, share, 0.0),
        random_state=random_state,
        block_size=block_size,
    )
    return Split(rows[drawn.train], rows[drawn.validation], split.test)


def _stratify(present: sparse.csr_array, shares: NDArray[np.float64], random: Any) -> Indices:
    """Assign each row to a part by iterative stratification, in time linear in the positive entries.

    Plain lists: a row touches a handful of numbers, for which numpy's cost per call is too high.
    """
    n_rows, n_labels = present.shape
    order = np.arange(n_rows) if random is None else random.permutation(n_rows)
    parts = [int(part) for part in np.flatnonzero(shares)]
    if random is not None:
        random.shuffle(parts)  # the last tie goes to the first part: without this always to the same
    dealt = sparse.csr_array(present[order])
    bounds, columns = dealt.indptr.tolist(), dealt.indices.tolist()
    by_label = dealt.tocsc()
    counts = np.diff(by_label.indptr)
    wanted = [(shares[part] * counts).tolist() for part in parts]  # [place in parts][label]
    wanted_rows = [float(shares[part] * n_rows) for part in parts]
    remaining = counts.tolist()
    places = range(len(parts))
    assigned = [-1] * n_rows

    unfinished = {label for label in range(n_labels) if remaining[label]}
    while unfinished:
        label = min(unfinished, key=lambda j: (remaining[j], j))
        for row in by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]].tolist():
            if assigned[row] >= 0:
                continue
            row_labels = columns[bounds[row] : bounds[row + 1]]
            most = max([wanted[place][label] for place in places])
            # Sums such as 0.2 * 7 - 1 carry rounding errors, so a tie is "within a hair".
            tied = [place for place in places if wanted[place][label] > most - 1e-9]
            best = tied[0]
            if len(tied) > 1:
                best = max(
                    tied,
                    key=lambda place: (sum([wanted[place][j] for j in row_labels]), wanted_rows[place]),
                )
            assigned[row] = best
            wanted_rows[best] -= 1
            lacking = wanted[best]
            for j in row_labels:
                lacking[j] -= 1
                remaining[j] -= 1
        unfinished = {j for j in unfinished if remaining[j]}

    chosen = np.array(assigned, dtype=np.intp)
    unlabelled = np.flatnonzero(chosen < 0)
    filling = np.maximum(wanted_rows, 0.0)
    if unlabelled.size:
        chosen[unlabelled] = np.repeat(np.arange(len(parts)), _apportion(filling / filling.sum(), len(unlabelled)))
    for place in places:  # tiny tables only: no part may stay empty
        if not (chosen == place).any():
            chosen[np.flatnonzero(chosen == np.bincount(chosen).argmax())[-1]] = place
    result = np.empty(n_rows, dtype=np.intp)
    result[order] = np.array(parts)[chosen]
    return result


def _deal_groups(groups: Indices, shares: NDArray[np.float64], random: Any, things: str) -> Indices:
    """Assign whole groups, in random order, each to the part that lacks most rows."""
    sizes = np.bincount(groups)
    parts = np.flatnonzero(shares)
    _check_enough(len(sizes), len(parts), things)
    wanted = shares * len(groups)
    part_of_group = np.empty(len(sizes), dtype=np.intp)
    empty = {int(part) for part in parts}
    for left, group in zip(range(len(sizes), 0, -1), random.permutation(len(sizes)), strict=True):
        # Once only as many groups are left as parts are empty, those parts get them.
        allowed = sorted(empty) if left <= len(empty) else parts
        part = max(map(int, allowed), key=lambda p: float(wanted[p]))
        part_of_group[group] = part
        wanted[part] -= sizes[group]
        empty.discard(part)
    return part_of_group[groups]


def _between_folds(points: NDArray[np.float64], folds: Indices) -> NDArray[np.float64]:
    """Distance of each point to the nearest one of another fold."""
    found = np.empty(len(points))
    for fold in np.unique(folds):
        out = folds == fold
        found[out] = KDTree(points[~out]).query(points[out])[0]
    return found


def _apportion(shares: NDArray[np.float64], total: int) -> Indices:
    """Whole numbers near the shares that sum to ``total``; a positive share gets 1 at least if possible."""
    exact = shares * total
    counts = np.floor(exact + 1e-9).astype(np.intp)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    for part in np.flatnonzero((shares > 0) & (counts == 0)):
        if counts.max() > 1:
            counts[counts.argmax()] -= 1
            counts[part] += 1
    return counts


def _presences(y: Any) -> sparse.csr_array:
    """Sparse matrix of what is to be spread evenly: positive labels, then gaps of labels that have some."""
    if y is None:
        raise DataError("y must be given to stratify by it; got None.")
    if sparse.issparse(y):
        table: Any = y
        table = table.tocsr().astype(np.float64)
        table.sum_duplicates()
        values = table.data
    else:
        table = np.asarray(y)
        if table.ndim == 1:
            classes, numbers = np.unique(table, return_inverse=True)
            table = numbers[:, None] == np.arange(len(classes))
        if table.ndim != 2:
            raise DataError(f"y must have one or two axes; got shape {table.shape}.")
        try:
            values = table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"labels must be 0, 1 or NaN; got {error}.") from error
    gaps = np.isnan(values)
    wrong = values[~(gaps | (values == 0) | (values == 1))]
    if wrong.size:
        raise DataError(f"labels must be 0, 1 or NaN; got {listed(np.unique(wrong))}.")
    if sparse.issparse(y):
        positive, missing = table.copy(), table.copy()
        positive.data, missing.data = values == 1, gaps
        positive.eliminate_zeros()
        missing.eliminate_zeros()
    else:
        positive, missing = sparse.csr_array(values == 1), sparse.csr_array(gaps)
    return sparse.csr_array(sparse.hstack([positive, missing], format="csr")) if gaps.any() else positive


def _unrolled(longitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Longitudes counted eastwards from where the widest stretch without sites ends: no date line cuts the sites."""
    around = np.unique(longitudes % 360)
    gaps = np.diff(around, append=around[0] + 360)
    first = around[(np.argmax(gaps) + 1) % len(around)]
    eastwards: NDArray[np.float64] = (longitudes % 360 - first) % 360
    return eastwards


def _mean_cosine(south: Any, north: Any) -> Any:
    """Mean length of a degree of longitude between two latitudes, counted in degrees of latitude."""
    half = np.radians(north - south) / 2
    # The mean of a cosine over an interval is that of its middle times sin(h) / h; numpy's sinc divides by pi h.
    return np.cos(np.radians(north + south) / 2) * np.sinc(half / np.pi)


def _blocks_of_rows(coordinates: Any, block_size: float | None, n_blocks: int | None, degrees: bool = False) -> Indices:
    if coordinates is None:
        raise DataError("groups must hold the coordinates, shape (n_samples, 2); got None.")
    if block_size is None and n_blocks is None:
        n_blocks = _DEFAULT_BLOCKS
    return spatial_blocks(coordinates, block_size, n_blocks=n_blocks, degrees=degrees)


def _two_shares(test_size: Any) -> NDArray[np.float64]:
    if not isinstance(test_size, float) or not 0 < test_size < 1:
        raise ConfigError(f"test_size must be a share between 0 and 1; got {test_size}.")
    return np.array([1 - test_size, test_size])


def _two_parts(parts: Indices) -> tuple[Indices, Indices]:
    return np.flatnonzero(parts == 0), np.flatnonzero(parts == 1)


def _checked_fractions(fractions: Any) -> NDArray[np.float64]:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-6 or shares[0] == 0:
        raise ConfigError(
            f"fractions must be three shares (train above 0, validation, test) that sum to 1; got {fractions}."
        )
    return shares


def _check_n_splits(n_splits: int, *, least: int) -> None:
    if isinstance(n_splits, bool) or not isinstance(n_splits, int | np.integer) or n_splits < least:
        raise ConfigError(f"n_splits must be a whole number, {least} or larger; got {n_splits}.")


def _check_enough(found: int, needed: int, things: str) -> None:
    if found < needed:
        remedy = " Use smaller blocks." if things == "blocks" else ""
        raise DataError(f"there must be at least {needed} {things} for {needed} parts; got {found}.{remedy}")
