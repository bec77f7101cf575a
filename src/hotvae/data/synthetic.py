"""Virtual regions: invented species whose niches and interactions are known exactly.

Smooth environmental layers cover a square of land, every species has a niche on some of them, and inside
small guilds species help or exclude one another, some only together with a third species, some only where a
layer is low or high. Guilds are small, so every probability is computed exactly by listing all states of a
guild; what a model finds can therefore be scored against the truth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import entr, expit, log_expit, softmax

from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, DataError, listed

FloatArray = NDArray[np.float64]

LAYER_NAMES = (
    "temperature",
    "rainfall",
    "elevation",
    "forest",
    "soil_ph",
    "irrelevant_smooth",
    "irrelevant_rough",
)
"""The feature columns of every virtual region; no species responds to the last two."""

REGION_SIZE = 100.0
"""Side of the square region in kilometres."""

_N_RELEVANT = 5
_WAVELENGTHS = np.array([80.0, 65.0, 60.0, 50.0, 55.0, 60.0, 9.0])
# Rows: layers; columns: the independent fields they mix. Heights are cool and wet, forest follows rain.
_MIXING = np.eye(len(LAYER_NAMES))
_MIXING[0, 2] = -0.8
_MIXING[1, 2] = 0.5
_MIXING[3, 1] = 0.5


@dataclass(frozen=True)
class Gate:
    """The environment in which an interaction acts: where a layer is low, or where it is high.

    The gate is exactly 0 on one side of the threshold and exactly 1 on the other; a smooth ramp
    (:math:`3t^2 - 2t^3`) of half-width ``ramp`` joins the two.

    Parameters
    ----------
    layer : str
        Name of the environmental layer.
    side : {"above", "below"}
        On which side of the threshold the gate is open.
    threshold : float
        Layer value (in standard deviations of the layer) at which the gate is half open.
    ramp : float
        Half-width of the ramp, in the same units.
    """

    layer: str
    side: Literal["above", "below"]
    threshold: float = 0.0
    ramp: float = 0.25

    def __post_init__(self) -> None:
        if self.side not in ("above", "below"):
            raise ConfigError(f"side must be 'above' or 'below'; got {self.side!r} (gate on {self.layer!r}).")
        if not self.ramp > 0:
            raise ConfigError(f"ramp must be larger than 0; got {self.ramp} (gate on {self.layer!r}).")

    def openness(self, values: ArrayLike) -> FloatArray:
        """Return how far the gate is open, 0 to 1, at the given values of its layer."""
        distance = np.asarray(values, dtype=np.float64) - self.threshold
        if self.side == "below":
            distance = -distance
        position = np.clip(distance / (2 * self.ramp) + 0.5, 0.0, 1.0)
        gate: FloatArray = position**2 * (3 - 2 * position)
        return gate

    def describe(self) -> str:
        """Say the condition in words."""
        return f"{self.layer} is {'high' if self.side == 'above' else 'low'}"


@dataclass(frozen=True)
class Interaction:
    """One known effect on a species: a change of its logit when all sources are present and the gate is open.

    Parameters
    ----------
    target : str
        The species that is helped or excluded.
    sources : tuple of str
        The acting species, and for a third-order effect the species that must also be present.
    strength : float
        Change of the target's logit; positive helps, negative excludes.
    condition : Gate or None
        Where the interaction acts; None means everywhere.
    """

    target: str
    sources: tuple[str, ...]
    strength: float
    condition: Gate | None = None

    def __post_init__(self) -> None:
        if not self.sources or self.target in self.sources:
            raise ConfigError(
                f"sources must name at least one species other than the target {self.target!r}; got {self.sources!r}."
            )

    @property
    def order(self) -> int:
        """Number of species involved: 2 for a pair, 3 when a third species must be present."""
        return 1 + len(self.sources)

    def describe(self) -> str:
        """Say the interaction in one plain sentence."""
        actor, *witnesses = self.sources
        where = [f"{witness} is present" for witness in witnesses]
        if self.condition is not None:
            where.append(self.condition.describe())
        sentence = f"{actor} {'helps' if self.strength > 0 else 'excludes'} {self.target}"
        return f"{sentence} where {' and '.join(where)}" if where else sentence


@dataclass(frozen=True)
class _Motif:
    """A guild's plan: how many species, and (target, sources, sign, gate) by place in the guild's order."""

    size: int
    effects: tuple[tuple[int, tuple[int, ...], int, Gate | None], ...] = ()


_COLD = Gate("temperature", "below")
_WARM = Gate("temperature", "above")
_DRY = Gate("rainfall", "below")
_WET = Gate("rainfall", "above")
_WOODED = Gate("forest", "above")

# Together 24 species, the default; fewer species cut the list short, more start it again.
_MOTIFS = (
    # A helps B where cold; C excludes B only where A is present and it is dry; a plain pair; a plain triple.
    _Motif(5, ((2, (0,), 1, _COLD), (2, (1, 0), -1, _DRY), (3, (0,), -1, None), (4, (1, 0), 1, None))),
    # A chain of plain pairs, and a switch by a second layer.
    _Motif(4, ((1, (0,), 1, None), (2, (1,), -1, None), (3, (2,), 1, _WOODED))),
    _Motif(4),  # control: shared habitat, no interaction
    # Third-order effects only.
    _Motif(4, ((2, (0, 1), 1, None), (3, (2, 0), -1, _WET))),
    # The same pair, opposite signs in opposite climates; then a plain exclusion.
    _Motif(3, ((1, (0,), 1, _COLD), (1, (0,), -1, _WARM), (2, (0,), -1, None))),
    _Motif(4),  # control
)


@dataclass(frozen=True, eq=False)
class _Landscape:
    """Smooth layers as mixed sums of cosine waves, standardised over the whole region."""

    frequencies: FloatArray  # (2, field * wave)
    phases: FloatArray  # (field * wave,)
    amplitudes: FloatArray  # (field, wave)
    mixing: FloatArray  # (layer, field)
    offsets: FloatArray  # (layer,)

    def __call__(self, coordinates: FloatArray) -> FloatArray:
        waves = np.cos(coordinates @ self.frequencies + self.phases)
        fields = (waves.reshape(-1, *self.amplitudes.shape) * self.amplitudes).sum(-1)
        layers: FloatArray = fields @ self.mixing.T - self.offsets
        return layers


@dataclass(frozen=True, eq=False)
class _Community:
    """Niches and interactions: everything needed for the joint law of all species given the layers.

    Within a guild (species in a fixed order) the law is a product of logistic conditionals,
    logit P(y_i = 1 | x, earlier) = niche_i(x) + sum of strength * gate(x) * product of the sources.
    """

    species: tuple[str, ...]
    guilds: tuple[tuple[int, ...], ...]  # species numbers, sources before targets
    interactions: tuple[Interaction, ...]
    intercepts: FloatArray  # (label,)
    optima: FloatArray  # (label, layer)
    precisions: FloatArray  # (label, layer, layer); off-diagonal entries make a niche non-additive

    def niche_logits(self, features: FloatArray) -> FloatArray:
        """Logits before interactions, (sample, label)."""
        logits = np.empty((len(features), len(self.species)))
        for i, precision in enumerate(self.precisions):
            gap = features - self.optima[i]
            logits[:, i] = self.intercepts[i] - 0.5 * np.einsum("np,pq,nq->n", gap, precision, gap)
        return logits

    def effects_on(self, species: int, features: FloatArray) -> Iterator[tuple[list[int], FloatArray]]:
        """Source species and strength * gate(x) of each interaction that targets ``species``."""
        for effect in self.interactions:
            if effect.target == self.species[species]:
                strength = np.full(len(features), effect.strength)
                if effect.condition is not None:
                    strength *= effect.condition.openness(features[:, LAYER_NAMES.index(effect.condition.layer)])
                yield [self.species.index(source) for source in effect.sources], strength

    def guild_log_joint(
        self, guild: tuple[int, ...], niche: FloatArray, features: FloatArray
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """All states of a guild, (state, member), and their log probability at each site, (sample, state)."""
        place = {species: position for position, species in enumerate(guild)}
        states = (np.arange(2 ** len(guild))[:, None] >> np.arange(len(guild))) & 1 == 1
        log_joint = np.zeros((len(features), len(states)))
        for species in guild:
            logits = np.repeat(niche[:, [species]], len(states), axis=1)
            for sources, strength in self.effects_on(species, features):
                acting = states[:, [place[source] for source in sources]].all(axis=1)
                logits[:, acting] += strength[:, None]
            log_joint += log_expit(np.where(states[:, place[species]], logits, -logits))
        return states, log_joint


@dataclass(frozen=True, eq=False)
class VirtualRegion:
    r"""A sampled virtual region together with its whole truth; made by :func:`virtual_region`.

    Attributes
    ----------
    dataset : Dataset
        Sites with their layers, coordinates (km) and presences (0/1).
    marginals : ndarray of shape (n_sites, n_species)
        Exact :math:`P(y_i = 1 \mid x)` at each site.
    conditionals : ndarray of shape (n_sites, n_species)
        Exact :math:`P(y_i = 1 \mid x, y_{-i})` given all other species as observed at the site.
    interactions : tuple of Interaction
        Every interaction that acts, and no other.
    guilds : tuple of tuple of str
        Disjoint groups of species; species of different guilds are independent given the layers.
    """

    dataset: Dataset
    marginals: FloatArray
    conditionals: FloatArray
    interactions: tuple[Interaction, ...]
    guilds: tuple[tuple[str, ...], ...]
    _landscape: _Landscape
    _community: _Community

    @property
    def best_log_loss(self) -> float:
        """Expected log loss of the true marginals: the best any predictor from the layers alone can do."""
        return float((entr(self.marginals) + entr(1 - self.marginals)).mean())

    def environment(self, coordinates: ArrayLike) -> FloatArray:
        """Evaluate the layers anywhere in the region, for instance on the grid of a map.

        Parameters
        ----------
        coordinates : array-like of shape (n_samples, 2)
            Easting and northing in kilometres.

        Returns
        -------
        ndarray of shape (n_samples, n_layers)
            The layers in the column order of ``dataset.feature_names``.
        """
        return self._landscape(_table(coordinates, 2, "coordinates"))

    def marginals_at(self, features: ArrayLike) -> FloatArray:
        """Exact probability of each species given the layers alone.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_layers)
            Layers as in ``dataset.features``.

        Returns
        -------
        ndarray of shape (n_samples, n_species)
        """
        table = _table(features, len(LAYER_NAMES), "features")
        return self.conditional_probs(table, np.full((len(table), len(self._community.species)), np.nan))

    def conditional_probs(self, features: ArrayLike, labels: ArrayLike) -> FloatArray:
        """Exact probability of each species given the layers and the species that have been observed.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_layers)
            Layers as in ``dataset.features``.
        labels : array-like of shape (n_samples, n_species)
            Given labels: 1 present, 0 absent, NaN not given.

        Returns
        -------
        ndarray of shape (n_samples, n_species)
            Probabilities of the species that are not given; given ones as given.
        """
        table = _table(features, len(LAYER_NAMES), "features")
        seen = _observations(labels, len(table), len(self._community.species))
        niche = self._community.niche_logits(table)
        probs = np.empty_like(seen)
        for guild in self._community.guilds:
            states, log_joint = self._community.guild_log_joint(guild, niche, table)
            for position, species in enumerate(guild):
                # Comparisons with NaN are False, so a species that is not given rules nothing out.
                log_joint[np.ix_(seen[:, species] == 1, ~states[:, position])] = -np.inf
                log_joint[np.ix_(seen[:, species] == 0, states[:, position])] = -np.inf
            probs[:, guild] = softmax(log_joint, axis=1) @ states
        return np.where(np.isnan(seen), np.clip(probs, 0.0, 1.0), seen)

    def logits(self, features: ArrayLike, labels: ArrayLike) -> FloatArray:
        """Logit of each species given the layers and the earlier species of its guild: the generating law.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_layers)
            Layers as in ``dataset.features``.
        labels : array-like of shape (n_samples, n_species)
            Complete presences, 0 or 1; only the sources listed in ``interactions`` are looked at.

        Returns
        -------
        ndarray of shape (n_samples, n_species)
        """
        table = _table(features, len(LAYER_NAMES), "features")
        seen = _observations(labels, len(table), len(self._community.species))
        if np.isnan(seen).any():
            raise DataError(
                f"labels must be complete; got {int(np.isnan(seen).sum())} missing entries. "
                "Use conditional_probs for partly observed rows."
            )
        logits = self._community.niche_logits(table)
        for species in range(logits.shape[1]):
            for sources, strength in self._community.effects_on(species, table):
                logits[:, species] += strength * seen[:, sources].all(axis=1)
        return logits

    def sample(self, features: ArrayLike, n_draws: int = 1, random_state: int = 0) -> NDArray[np.int8]:
        """Draw whole communities from the true joint law.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_layers)
            Layers as in ``dataset.features``.
        n_draws : int
            Independent communities per row.
        random_state : int
            Seed.

        Returns
        -------
        ndarray of shape (n_draws, n_samples, n_species)
            Presences, 0 or 1.
        """
        if n_draws < 1:
            raise ConfigError(f"n_draws must be at least 1; got {n_draws}.")
        table = _table(features, len(LAYER_NAMES), "features")
        return _draw(self._community, table, n_draws, np.random.default_rng(random_state))


def virtual_region(
    n_sites: int = 3000, n_species: int = 24, *, random_state: int = 0, interaction_scale: float = 1.0
) -> VirtualRegion:
    r"""Draw a virtual region with known niches and interactions.

    Parameters
    ----------
    n_sites : int
        Survey sites, uniform over the region.
    n_species : int
        Invented species. Interactions follow a fixed plan for 24; fewer species cut it short, more repeat it.
    random_state : int
        Seed. The landscape, niches and interactions depend on the seed and ``n_species``, not on ``n_sites``:
        a larger sample of the same seed adds sites to the same region.
    interaction_scale : float
        Multiplies all interaction strengths; 0 gives species that are independent given the layers.

    Returns
    -------
    VirtualRegion
        The data set and its truth.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Notes
    -----
    Inside a guild, in a fixed order,

    .. math:: \operatorname{logit} P(y_i = 1 \mid x, y_{<i}) = b_i - \tfrac12 (x - o_i)^T P_i (x - o_i)
              + \sum_k s_k\, g_k(x) \prod_{j \in \text{sources}_k} y_j

    with optimum :math:`o_i`, precision :math:`P_i` on two or three layers (every second species with a cross
    term, so that its niche is not additive) and gates :math:`g_k` (:class:`Gate`). The intercept is
    solved for a set prevalence over the region, interactions included: .2 to .55 in interacting guilds, .05
    to .3 in the others. Strengths lie between 2.5 and 4 in absolute value.

    Examples
    --------
    >>> region = virtual_region(200, random_state=0)
    >>> region.dataset.labels.shape
    (200, 24)
    >>> print(region.interactions[1].describe())
    species_... excludes species_... where species_... is present and rainfall is low
    """
    _check_parameters(n_sites, n_species, random_state, interaction_scale)
    terrain, traits, places, draws = (
        np.random.default_rng(seed) for seed in np.random.SeedSequence(random_state).spawn(4)
    )
    axis = (np.arange(30) + 0.5) * REGION_SIZE / 30
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    landscape = _make_landscape(terrain, grid)
    community = _make_community(traits, n_species, interaction_scale, landscape(grid))

    coordinates = places.uniform(0.0, REGION_SIZE, size=(n_sites, 2))
    features = landscape(coordinates)
    labels = _draw(community, features, 1, draws)[0].astype(np.float32)
    marginals, conditionals = _truth(community, features, labels == 1)
    return VirtualRegion(
        dataset=Dataset(
            features=features,
            labels=labels,
            feature_names=LAYER_NAMES,
            label_names=community.species,
            coordinates=coordinates,
            coordinate_names=("easting_km", "northing_km"),
            name=f"virtual region {random_state}",
        ),
        marginals=marginals,
        conditionals=conditionals,
        interactions=community.interactions,
        guilds=tuple(tuple(community.species[i] for i in guild) for guild in community.guilds),
        _landscape=landscape,
        _community=community,
    )


def _make_landscape(rng: np.random.Generator, grid: FloatArray) -> _Landscape:
    n_fields, n_waves = len(LAYER_NAMES), 6
    angles = rng.uniform(0, 2 * np.pi, size=(n_fields, n_waves))
    wavelengths = _WAVELENGTHS[:, None] * rng.uniform(0.7, 1.6, size=(n_fields, n_waves))
    frequencies = 2 * np.pi / wavelengths * np.stack([np.cos(angles), np.sin(angles)])
    amplitudes = rng.uniform(0.5, 1.0, size=(n_fields, n_waves))
    amplitudes /= np.sqrt((amplitudes**2).sum(axis=1, keepdims=True) / 2)
    waves = _Landscape(
        frequencies=frequencies.reshape(2, -1),
        phases=rng.uniform(0, 2 * np.pi, size=n_fields * n_waves),
        amplitudes=amplitudes,
        mixing=np.eye(n_fields),
        offsets=np.zeros(n_fields),
    )
    # A few long waves correlate by chance; decorrelated over the region, only _MIXING ties layers together.
    fields = waves(grid)
    decorrelate = np.linalg.inv(np.linalg.cholesky(np.cov(fields.T, bias=True)))
    mixing = _MIXING / np.linalg.norm(_MIXING, axis=1, keepdims=True) @ decorrelate
    return replace(waves, mixing=mixing, offsets=mixing @ fields.mean(axis=0))


def _make_community(
    rng: np.random.Generator, n_species: int, interaction_scale: float, grid_features: FloatArray
) -> _Community:
    width = max(2, len(str(n_species)))
    species = tuple(f"species_{number + 1:0{width}d}" for number in range(n_species))
    shuffled = rng.permutation(n_species)  # so that neighbours in the table are not neighbours in a guild

    guilds: list[tuple[int, ...]] = []
    interactions: list[Interaction] = []
    optima = np.zeros((n_species, len(LAYER_NAMES)))
    precisions = np.zeros((n_species, len(LAYER_NAMES), len(LAYER_NAMES)))
    prevalences = np.empty(n_species)
    start = 0
    while start < n_species:
        motif = _MOTIFS[len(guilds) % len(_MOTIFS)]
        guild = tuple(int(i) for i in shuffled[start : start + motif.size])
        start += len(guild)
        guilds.append(guild)
        for target, sources, sign, gate in motif.effects:
            strength = interaction_scale * sign * rng.uniform(2.5, 4.0)
            if max(target, *sources) < len(guild) and interaction_scale > 0:
                names = tuple(species[guild[source]] for source in sources)
                interactions.append(Interaction(species[guild[target]], names, float(strength), gate))
        # Members share a habitat, so they meet often; controls then co-occur without interacting.
        habitat = rng.normal(0.0, 0.5, size=_N_RELEVANT)
        low, high = (0.2, 0.55) if motif.effects else (0.05, 0.3)
        prevalences[list(guild)] = rng.permutation(np.linspace(low, high, len(guild)))
        for member in guild:
            layers = rng.choice(_N_RELEVANT, size=rng.choice([2, 3, 3]), replace=False)
            optima[member, layers] = np.clip(habitat[layers] + rng.normal(0.0, 0.4, size=len(layers)), -1.5, 1.5)
            root = 1 / rng.uniform(0.6, 1.1, size=len(layers))
            correlation = rng.choice([-1, 1]) * rng.uniform(0.5, 0.8)
            shape = np.eye(len(layers))
            if member % 2 == 0:
                shape[0, 1] = shape[1, 0] = correlation
            precisions[member][np.ix_(layers, layers)] = shape * np.outer(root, root)
    community = _Community(species, tuple(guilds), tuple(interactions), np.zeros(n_species), optima, precisions)
    return replace(community, intercepts=_intercepts(community, prevalences, grid_features))


def _intercepts(community: _Community, prevalences: FloatArray, features: FloatArray) -> FloatArray:
    """Solve each intercept for the wanted mean marginal over the region, in guild order."""
    intercepts = np.zeros_like(prevalences)
    niche = community.niche_logits(features)
    for guild in community.guilds:
        # Probability of each state of the members settled so far, (sample, state).
        states, probs = np.zeros((1, 0), dtype=bool), np.ones((len(features), 1))
        for position, species in enumerate(guild):
            logits = np.repeat(niche[:, [species]], len(states), axis=1)
            for sources, strength in community.effects_on(species, features):
                acting = states[:, [guild.index(source) for source in sources]].all(axis=1)
                logits[:, acting] += strength[:, None]

            def excess(
                intercept: float,
                logits: FloatArray = logits,
                probs: FloatArray = probs,
                species: int = species,
            ) -> float:
                mean = (probs * expit(logits + intercept)).sum(axis=1).mean()
                return float(mean - prevalences[species])

            intercepts[species] = brentq(excess, -30.0, 60.0, xtol=1e-9)
            present = expit(logits + intercepts[species])
            probs = np.concatenate([probs * (1 - present), probs * present], axis=1)
            states = np.column_stack([np.tile(states, (2, 1)), np.repeat([False, True], 2**position)])
    return intercepts


def _draw(community: _Community, features: FloatArray, n_draws: int, rng: np.random.Generator) -> NDArray[np.int8]:
    niche = community.niche_logits(features)
    uniform = rng.random((n_draws, *niche.shape))
    draws = np.zeros(uniform.shape, dtype=np.int8)
    for guild in community.guilds:
        for species in guild:
            logits = np.repeat(niche[None, :, species], n_draws, axis=0)
            for sources, strength in community.effects_on(species, features):
                logits += strength * draws[:, :, sources].all(axis=2)
            draws[:, :, species] = uniform[:, :, species] < expit(logits)
    return draws


def _truth(community: _Community, features: FloatArray, present: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Exact marginals, and conditionals given all other species, from one pass over the guilds."""
    niche = community.niche_logits(features)
    marginals, conditionals = np.empty_like(niche), np.empty_like(niche)
    rows = np.arange(len(features))
    for guild in community.guilds:
        states, log_joint = community.guild_log_joint(guild, niche, features)
        marginals[:, guild] = np.clip(softmax(log_joint, axis=1) @ states, 0.0, 1.0)
        here = present[:, guild] @ (1 << np.arange(len(guild)))
        for position, species in enumerate(guild):
            bit = 1 << position
            log_odds = log_joint[rows, here | bit] - log_joint[rows, here & ~bit]
            conditionals[:, species] = expit(log_odds)
    return marginals, conditionals


def _table(values: ArrayLike, n_columns: int, thing: str) -> FloatArray:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != n_columns:
        raise DataError(f"{thing} must have shape (n_samples, {n_columns}); got {table.shape}.")
    if not np.isfinite(table).all():
        rows = np.flatnonzero(~np.isfinite(table).all(axis=1))
        raise DataError(f"{thing} must be finite; got NaN or infinity (rows {listed(rows)}).")
    return table


def _observations(values: ArrayLike, n_rows: int, n_species: int) -> FloatArray:
    labels = np.asarray(values, dtype=np.float64)
    if labels.shape != (n_rows, n_species):
        raise DataError(f"labels must have shape ({n_rows}, {n_species}); got {labels.shape}.")
    wrong = labels[~np.isnan(labels) & (labels != 0) & (labels != 1)]
    if wrong.size:
        raise DataError(f"labels must be 0, 1 or NaN; got {listed(np.unique(wrong))}.")
    return labels


def _check_parameters(n_sites: int, n_species: int, random_state: int, interaction_scale: float) -> None:
    if n_sites < 1:
        raise ConfigError(f"n_sites must be at least 1; got {n_sites}.")
    if n_species < 1:
        raise ConfigError(f"n_species must be at least 1; got {n_species}.")
    if random_state < 0:
        raise ConfigError(f"random_state must be a whole number, 0 or larger; got {random_state}.")
    if not 0 <= interaction_scale <= 2:
        raise ConfigError(f"interaction_scale must be between 0 and 2; got {interaction_scale}.")
