import itertools
import math

import numpy as np
import pytest

from hotvae.data.synthetic import LAYER_NAMES, REGION_SIZE, Gate, Interaction, virtual_region
from hotvae.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def region():
    return virtual_region(400, random_state=3)


def guild_law(region, row):
    """Plain reference: for each guild, {state: probability}, one logistic factor at a time."""
    names = region.dataset.label_names
    features = region.dataset.features[row]
    empty = np.zeros((1, len(names)))
    niche = region.logits(features[None], empty)[0]  # no source present: the niche alone
    for guild in region.guilds:
        law = {}
        for state in itertools.product((0, 1), repeat=len(guild)):
            present = dict(zip(guild, state, strict=True))
            probability = 1.0
            for species in guild:
                logit = niche[names.index(species)]
                for effect in region.interactions:
                    if effect.target == species and all(present[source] for source in effect.sources):
                        gate = 1.0
                        if effect.condition is not None:
                            layer = features[LAYER_NAMES.index(effect.condition.layer)]
                            gate = float(effect.condition.openness(layer))
                        logit += effect.strength * gate
                p = 1 / (1 + math.exp(-logit))
                probability *= p if present[species] else 1 - p
            law[state] = probability
        yield guild, law


@pytest.mark.parametrize("row", [0, 7, 123])
def test_marginals__every_guild__equal_plain_enumeration(region, row):
    for guild, law in guild_law(region, row):
        assert sum(law.values()) == pytest.approx(1.0)
        for place, species in enumerate(guild):
            truth = sum(p for state, p in law.items() if state[place])
            column = region.dataset.label_names.index(species)
            assert region.marginals[row, column] == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("row", [0, 7, 123])
def test_conditionals__all_others_observed__equal_bayes(region, row):
    names = region.dataset.label_names
    observed = region.dataset.labels[row].astype(int)
    for guild, law in guild_law(region, row):
        state = [int(observed[names.index(species)]) for species in guild]
        for place, species in enumerate(guild):
            with_it = law[(*state[:place], 1, *state[place + 1 :])]
            without = law[(*state[:place], 0, *state[place + 1 :])]
            expected = with_it / (with_it + without)
            assert region.conditionals[row, names.index(species)] == pytest.approx(expected, abs=1e-12)


def test_conditional_probs__partly_observed__equals_bayes_over_matching_states(region):
    rng = np.random.default_rng(0)
    names = region.dataset.label_names
    labels = np.where(rng.random((400, 24)) < 0.5, np.nan, region.dataset.labels)
    probs = region.conditional_probs(region.dataset.features, labels)
    for row in (5, 60, 301):
        for guild, law in guild_law(region, row):
            seen = [labels[row, names.index(species)] for species in guild]
            match = {
                state: p
                for state, p in law.items()
                if all(math.isnan(known) or known == bit for known, bit in zip(seen, state, strict=True))
            }
            for place, species in enumerate(guild):
                expected = sum(p for state, p in match.items() if state[place]) / sum(match.values())
                assert probs[row, names.index(species)] == pytest.approx(expected, abs=1e-12)


def test_conditional_probs__nothing_observed__equals_marginals(region):
    unknown = np.full(region.marginals.shape, np.nan)
    np.testing.assert_array_equal(
        region.conditional_probs(region.dataset.features, unknown),
        region.marginals_at(region.dataset.features),
    )
    np.testing.assert_allclose(region.marginals_at(region.dataset.features), region.marginals, atol=1e-14)


def test_conditional_probs__all_but_one_observed__equals_conditionals(region):
    for column in (0, 11, 23):
        labels = region.dataset.labels.copy()
        labels[:, column] = np.nan
        probs = region.conditional_probs(region.dataset.features, labels)
        np.testing.assert_allclose(probs[:, column], region.conditionals[:, column], atol=1e-12)
        others = np.delete(np.arange(24), column)
        np.testing.assert_array_equal(probs[:, others], region.dataset.labels[:, others])


def test_sample__many_draws__means_and_pair_frequencies_agree_with_exact_law(region):
    features = region.dataset.features[:3]
    n_draws = 20_000
    draws = region.sample(features, n_draws, random_state=1)
    assert draws.shape == (n_draws, 3, 24)
    assert set(np.unique(draws)) == {0, 1}
    truth = region.marginals[:3]
    error = np.sqrt(truth * (1 - truth) / n_draws)
    assert (np.abs(draws.mean(axis=0) - truth) <= 4 * error + 1e-4).all()
    names = region.dataset.label_names
    for guild, law in itertools.islice(guild_law(region, 0), 2):
        a, b = guild[0], guild[2]
        together = sum(p for state, p in law.items() if state[0] and state[2])
        frequency = draws[:, 0, [names.index(a), names.index(b)]].all(axis=1).mean()
        assert abs(frequency - together) <= 4 * math.sqrt(together * (1 - together) / n_draws) + 1e-4


def test_sample__same_seed__same_draws(region):
    features = region.dataset.features[:5]
    np.testing.assert_array_equal(region.sample(features, 4, 9), region.sample(features, 4, 9))
    assert (region.sample(features, 4, 9) != region.sample(features, 4, 10)).any()


def test_switch__exclusion_by_two_species__acts_only_where_dry(region):
    """C excludes B only where A is present and it is dry: its presence must not matter elsewhere."""
    effect = next(e for e in region.interactions if e.order == 3 and e.strength < 0)
    names = region.dataset.label_names
    target = names.index(effect.target)
    actor, witness = (names.index(source) for source in effect.sources)
    assert effect.condition == Gate("rainfall", "below")
    rainfall = region.dataset.features[:, 1]
    dry, wet = rainfall < -0.25, rainfall > 0.25

    def probs(actor_present, witness_present):
        seen = np.full((400, 24), np.nan)
        seen[:, actor], seen[:, witness] = actor_present, witness_present
        return region.conditional_probs(region.dataset.features, seen)[:, target]

    odds = {key: probs(*key) / (1 - probs(*key)) for key in itertools.product((0, 1), repeat=2)}
    # In guild order nothing later feeds back on the target's law given both its sources: the ratio is exact.
    np.testing.assert_allclose(odds[1, 1][dry] / odds[0, 1][dry], math.exp(effect.strength), rtol=1e-6)
    np.testing.assert_allclose(odds[1, 1][wet], odds[0, 1][wet], rtol=1e-9)
    np.testing.assert_allclose(odds[1, 0], odds[0, 0], rtol=1e-9)
    assert (probs(1, 1)[dry] < probs(0, 1)[dry]).all()


def test_switch__opposite_climates__sign_reverses(region):
    helps, excludes = (
        next(
            e
            for e in region.interactions
            if e.condition is not None
            and (e.condition.layer, e.condition.side) == ("temperature", side)
            and any(
                other.target == e.target and other.sources == e.sources and other.strength * e.strength < 0
                for other in region.interactions
            )
        )
        for side in ("below", "above")
    )
    names = region.dataset.label_names
    temperature = region.dataset.features[:, 0]
    labels = np.zeros((400, 24))
    alone = region.logits(region.dataset.features, labels)[:, names.index(helps.target)]
    labels[:, names.index(helps.sources[0])] = 1
    change = region.logits(region.dataset.features, labels)[:, names.index(helps.target)] - alone
    np.testing.assert_allclose(change[temperature < -0.25], helps.strength)
    np.testing.assert_allclose(change[temperature > 0.25], excludes.strength)
    assert helps.strength > 0 > excludes.strength


def test_interactions__listed__are_exactly_those_acting(region):
    """Flip each species in turn: only listed targets of it may change, and each of them does somewhere."""
    names = region.dataset.label_names
    features = region.dataset.features
    listed = {(names.index(s), names.index(e.target)) for e in region.interactions for s in e.sources}
    acting = set()
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, size=(400, 24)).astype(float)
    for source in range(24):
        flipped = labels.copy()
        flipped[:, source] = 1 - flipped[:, source]
        changed = region.logits(features, labels) != region.logits(features, flipped)
        acting |= {(source, int(target)) for target in np.flatnonzero(changed.any(axis=0))}
    assert acting == listed


def test_interactions__default_plan__holds_every_kind(region):
    kinds = {(e.order, e.condition is not None, e.strength > 0) for e in region.interactions}
    assert {(2, False, True), (2, False, False), (3, False, True), (3, True, False), (2, True, True)} <= kinds
    assert all(2 <= abs(e.strength) <= 4 for e in region.interactions)
    involved = {name for e in region.interactions for name in (e.target, *e.sources)}
    assert sum(involved.isdisjoint(guild) for guild in region.guilds) == 2  # the control guilds
    assert max(map(len, region.guilds)) <= 6
    assert sorted(itertools.chain(*region.guilds)) == sorted(region.dataset.label_names)


def test_guilds__different_guilds__do_not_inform_each_other(region):
    names = region.dataset.label_names
    seen = np.full((400, 24), np.nan)
    seen[:, [names.index(species) for species in region.guilds[0]]] = 1
    probs = region.conditional_probs(region.dataset.features, seen)
    elsewhere = [names.index(species) for guild in region.guilds[1:] for species in guild]
    np.testing.assert_allclose(probs[:, elsewhere], region.marginals[:, elsewhere], atol=1e-14)


def test_virtual_region__same_seed__same_everything():
    first, second = virtual_region(50, random_state=5), virtual_region(50, random_state=5)
    np.testing.assert_array_equal(first.dataset.labels, second.dataset.labels)
    np.testing.assert_array_equal(first.dataset.features, second.dataset.features)
    assert first.interactions == second.interactions
    other = virtual_region(50, random_state=6)
    assert (first.dataset.labels != other.dataset.labels).any()
    assert first.interactions != other.interactions


def test_virtual_region__more_sites__extend_the_same_region():
    small, large = virtual_region(40, random_state=5), virtual_region(90, random_state=5)
    assert small.interactions == large.interactions
    np.testing.assert_array_equal(small.dataset.coordinates, large.dataset.coordinates[:40])
    np.testing.assert_allclose(small.marginals, large.marginals[:40], atol=1e-14)
    np.testing.assert_array_equal(small.dataset.labels, large.dataset.labels[:40])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_virtual_region__default__prevalence_and_richness_are_sensible(seed):
    region = virtual_region(3000, random_state=seed)
    prevalence = region.marginals.mean(axis=0)
    assert prevalence.min() > 0.03
    assert prevalence.max() < 0.62
    assert 6 < region.dataset.labels.sum(axis=1).mean() < 8
    np.testing.assert_allclose(region.dataset.labels.mean(axis=0), prevalence, atol=0.03)


def test_environment__anywhere__smooth_standardised_and_known_correlation(region):
    axis = np.linspace(0, REGION_SIZE, 60)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    layers = region.environment(grid)
    np.testing.assert_allclose(layers.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose(layers.std(axis=0), 1, atol=0.1)
    assert np.corrcoef(layers[:, 0], layers[:, 2])[0, 1] < -0.5  # heights are cool
    nearby = region.environment(np.clip(grid + 0.1, 0, REGION_SIZE))
    assert np.abs(nearby - layers)[:, :6].max() < 0.1


def test_niches__along_any_layer__are_quadratic_and_single_peaked(region):
    steps = np.zeros((6, 7))
    absent = np.zeros((6, 24))
    for layer in range(7):
        steps[:] = region.dataset.features[0]
        steps[:, layer] = np.arange(6) - 3.0
        logits = region.logits(steps, absent)
        assert (np.diff(logits, n=2, axis=0) <= 1e-9).all()
        np.testing.assert_allclose(np.diff(logits, n=3, axis=0), 0, atol=1e-9)


def test_niches__irrelevant_layers__change_nothing(region):
    features = region.dataset.features.copy()
    features[:, 5:] = 9.0
    np.testing.assert_array_equal(region.marginals_at(features), region.marginals_at(region.dataset.features))


def test_best_log_loss__true_marginals__beats_any_tampering(region):
    """Expected log loss under the truth, -sum p log q, is least at q = p."""
    p = region.marginals
    assert region.best_log_loss == pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)).mean())
    q = np.clip(p * 1.1, 0, 0.999)
    assert region.best_log_loss < -(p * np.log(q) + (1 - p) * np.log(1 - q)).mean()


def test_interaction_scale__zero__species_are_independent():
    region = virtual_region(100, interaction_scale=0.0)
    assert region.interactions == ()
    np.testing.assert_allclose(region.conditionals, region.marginals, atol=1e-12)


@pytest.mark.parametrize("n_species", [1, 2, 7, 31])
def test_virtual_region__other_numbers_of_species__plan_is_cut_or_repeated(n_species):
    region = virtual_region(30, n_species)
    assert region.dataset.labels.shape == (30, n_species)
    assert len(set(region.dataset.label_names)) == n_species
    named = {name for e in region.interactions for name in (e.target, *e.sources)}
    assert named <= set(region.dataset.label_names)


def test_gate__above_and_below__mirror_each_other():
    """ramp .5 around 1: at 1.25 the position is .75, 3 * .5625 - 2 * .421875 = .84375."""
    high = Gate("forest", "above", 1.0, ramp=0.5)
    assert high.openness([0.5, 1.0, 1.25, 1.5]).tolist() == [0.0, 0.5, 0.84375, 1.0]
    low = Gate("forest", "below", 1.0, ramp=0.5)
    np.testing.assert_allclose(low.openness([0.3, 1.2]), 1 - high.openness([0.3, 1.2]))


@pytest.mark.parametrize(
    ("effect", "order", "sentence"),
    [
        (Interaction("b", ("a",), 2.0), 2, "a helps b"),
        (Interaction("b", ("a",), -2.0, Gate("rainfall", "above")), 2, "a excludes b where rainfall is high"),
        (Interaction("b", ("c", "a"), 2.0), 3, "c helps b where a is present"),
    ],
)
def test_interaction__describe__is_a_plain_sentence(effect, order, sentence):
    assert effect.order == order
    assert effect.describe() == sentence


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_sites": 0}, "n_sites must be at least 1; got 0"),
        ({"n_species": 0}, "n_species must be at least 1; got 0"),
        ({"random_state": -1}, "random_state must be a whole number, 0 or larger; got -1"),
        ({"interaction_scale": -0.5}, "interaction_scale must be between 0 and 2; got -0.5"),
    ],
)
def test_virtual_region__bad_parameter__is_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        virtual_region(**arguments)


def test_gate_and_interaction__bad_values__are_named():
    with pytest.raises(ConfigError, match=r"side must be 'above' or 'below'; got 'left' \(gate on 'forest'\)"):
        Gate("forest", "left")
    with pytest.raises(ConfigError, match="ramp must be larger than 0; got 0"):
        Gate("forest", "above", 0.0, ramp=0)
    with pytest.raises(ConfigError, match="other than the target 'a'; got \\('a',\\)"):
        Interaction("a", ("a",), 1.0)


def test_truth_methods__bad_tables__are_named(region):
    features = region.dataset.features
    with pytest.raises(DataError, match=r"features must have shape \(n_samples, 7\); got \(400, 6\)"):
        region.marginals_at(features[:, :6])
    with pytest.raises(DataError, match=r"coordinates must be finite; got NaN or infinity \(rows 1\)"):
        region.environment([[0.0, 1.0], [np.nan, 1.0]])
    with pytest.raises(DataError, match=r"labels must have shape \(400, 24\); got \(400, 3\)"):
        region.conditional_probs(features, np.zeros((400, 3)))
    with pytest.raises(DataError, match=r"labels must be 0, 1 or NaN; got 2\.0"):
        region.conditional_probs(features, np.full((400, 24), 2))
    with pytest.raises(DataError, match="labels must be complete; got 9600 missing entries"):
        region.logits(features, np.full((400, 24), np.nan))
    with pytest.raises(ConfigError, match="n_draws must be at least 1; got 0"):
        region.sample(features, 0)
