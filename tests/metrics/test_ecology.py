"""The 12 ecological measures against reference values, slow loops in exact fractions, and their own invariances."""

import copy
import math
import pickle
import statistics
import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotvae import metrics
from hotvae.data.synthetic import virtual_region
from hotvae.errors import ConfigError, DataError
from hotvae.metrics import DIALECTS, MEASURES, all_measures, ecology

NAN = math.nan
DIALECT_NAMES = ("norberg", "gomes", "text")
COMPONENTS = ("sor", "sim", "sne")


def communities(*rows):
    """Draws from text: one string per draw, its sites separated by blanks."""
    return np.array([[[int(cell) for cell in site] for site in row.split()] for row in rows])


TINY = {
    "labels": communities("101 110 001 011")[0].astype(float),
    "draws": communities("101 110 011 010", "100 111 001 011", "111 010 000 111", "101 100 001 011"),
    "pairs": np.array([[0, 0, 1, 2], [1, 2, 3, 3]]),
}
TINY["probs"] = TINY["draws"].mean(axis=0)

# Species 5 is never drawn, species 6 never observed, site 3 empty on both sides. Draws as bits, site by site.
TOY_DRAWS = """
    971035b39911155e18 315021e09914378f69 139025739b50579429 a3d001e0d950114031 430025729914059700
    639021759b1015d70c d30001769110318779 a35011210954179509 c3503136111513d739 931025d78114518539
    131021f48940319549 b35001f49914170729 031001b58b14050561 539001f28934138549 b79025a29914039e19
    a11001e2995455d639 a3002024d100049529 b35011729d34019f11 c3d005279b14170779 931025e4955c179639
"""
TOY_LABELS = "010100 001110 000000 010110 011010 011000 110110 110100 100100 111010 010100 111000"
TOY_PAIRS = """
    0 7 1 3 7 0  1  6 4 5 0  3 10  2 0  3 0 0 1 1 2 1 4 2  7  5 4 1  2 0  8 6 0  0 3 1  3 7 2  9
    5 9 2 9 9 8 10 10 6 8 8 10 11 10 5 10 9 9 8 6 6 2 6 3 11 11 6 5 10 3 10 9 8 10 6 9 11 8 7 10
"""


def from_bits(digits):
    bits = f"{int(digits, 16):072b}"
    return " ".join(bits[start : start + 6] for start in range(0, 72, 6))


TOY = {
    "labels": communities(TOY_LABELS)[0].astype(float),
    "draws": communities(*(from_bits(digits) for digits in TOY_DRAWS.split())),
    "pairs": np.array([line.split() for line in TOY_PAIRS.strip().splitlines()], dtype=int),
    "probs": np.array(
        [
            [0.597, 0.299, 0.332, 0.692, 0.0, 0.103],
            [0.978, 0.97, 0.244, 0.333, 0.0, 0.774],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.584, 0.228, 0.008, 0.564, 0.0, 0.905],
            [0.551, 0.446, 0.966, 0.558, 0.0, 0.461],
            [0.426, 0.394, 0.818, 0.137, 0.0, 0.734],
            [0.633, 0.105, 0.306, 0.913, 0.0, 0.415],
            [0.025, 0.878, 0.148, 0.48, 0.0, 0.217],
            [0.166, 0.106, 0.274, 0.815, 0.0, 0.588],
            [0.604, 0.877, 0.647, 0.331, 0.0, 0.516],
            [0.271, 0.972, 0.491, 0.65, 0.0, 0.469],
            [0.538, 0.4, 0.739, 0.122, 0.0, 0.726],
        ]
    ),
}
CASES = {"tiny": TINY, "toy": TOY}

# Columns: norberg, gomes, text. Computed by an independent implementation that was held against the authors' code.
EXPECTED = {
    "tiny": """
        occ_accuracy                           0.1875                0.1875                0.1875
        occ_discrimination                        1.0                   1.0                   1.0
        occ_calibration           0.19444444444444442                  0.75   0.18055555555555555
        occ_precision             0.32475952641916445   0.32475952641916445   0.32475952641916445
        rich_accuracy                          0.5625                 0.125                 0.125
        rich_discrimination       0.40121114268395897     0.816496580927726     0.816496580927726
        rich_calibration                          0.5                   0.5                   0.5
        rich_precision              0.851729212634879    0.7376191352871231     0.851729212634879
        comm_accuracy_sor         0.20625000000000002   0.20628156324144276   0.20628156324144276
        comm_discrimination_sor    -0.217465831577583   -0.4472135954999579   -0.4472135954999579
        comm_calibration_sor                      0.5                  0.25                  0.25
        comm_precision_sor        0.27756470053370125   0.24037808185600543   0.27756470053370125
        comm_accuracy_sim                    0.436875   0.29315098498896436    0.4043716189966848
        comm_discrimination_sim  -0.24999999999999997                   0.0   -0.4472135954999579
        comm_calibration_sim                      0.0                   0.0                  0.25
        comm_precision_sim        0.43122818299763377   0.26602428790818844   0.43122818299763377
        comm_accuracy_sne         0.23062499999999997   0.22672946434021315   0.24822442382516133
        comm_discrimination_sne    -0.217465831577583    0.7071067811865476   -0.8944271909999159
        comm_calibration_sne                     0.25                   0.0                  0.25
        comm_precision_sne         0.1942988255773069   0.27104785293897665    0.1942988255773069
    """,
    "toy": """
        occ_accuracy              0.40347222222222223    0.4121111111111111    0.4121111111111111
        occ_discrimination         0.7144973544973545    0.7468253968253968    0.6961904761904762
        occ_calibration           0.28457491582491584     4.813666666666667    0.4189527777777778
        occ_precision              0.2845635608897731   0.30930491942502686   0.30930491942502686
        rich_accuracy              0.8708333333333333    0.7680713942509946    0.7872684844871326
        rich_discrimination        0.3631922716670031   0.46286773248515556    0.5137564096289335
        rich_calibration          0.33333333333333337   0.33333333333333337   0.33333333333333337
        rich_precision             0.8759546500287484    0.8537749829209321    0.8759546500287484
        comm_accuracy_sor         0.25263511904761904    0.2581992600204239   0.25747207081564105
        comm_discrimination_sor    0.2816121910521331    0.3289973700730715    0.3289973700730715
        comm_calibration_sor      0.30000000000000004                  0.25                  0.25
        comm_precision_sor         0.2239333936060047   0.23656853456334606    0.2239333936060047
        comm_accuracy_sim                  0.30444375    0.2517792587543479   0.27124112664697847
        comm_discrimination_sim   0.22654060542776802   0.24480104613222106     0.392976909510886
        comm_calibration_sim                      0.4   0.42500000000000004   0.32499999999999996
        comm_precision_sim         0.3070942108054509    0.2929912973060368    0.3070942108054509
        comm_accuracy_sne         0.10948244047619048   0.13540441423726093    0.0834674873322705
        comm_discrimination_sne     0.072710871815666    0.3779000280505304   0.34523346308968444
        comm_calibration_sne                    0.375                   0.5   0.42500000000000004
        comm_precision_sne        0.13788783211610675   0.22826258434364463   0.13788783211610675
    """,
}


def expected_values(case, dialect):
    rows = [line.split() for line in EXPECTED[case].strip().splitlines()]
    return {row[0]: float(row[1 + DIALECT_NAMES.index(dialect)]) for row in rows}


def measures_of(case, dialect, **changes):
    return all_measures(**(CASES[case] | changes), dialect=dialect)


@st.composite
def cases(draw, missing=True, min_draws=1):
    """Small worlds with ties, empty sites, species of one class and, if wanted, unobserved cells."""
    n_sites, n_species = draw(st.integers(2, 7)), draw(st.integers(1, 5))
    n_draws, n_pairs = draw(st.integers(min_draws, 7)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rate = draw(st.sampled_from([0.1, 0.4, 0.9]))
    labels = (rng.random((n_sites, n_species)) < rate).astype(float)
    if missing:
        labels[rng.random(labels.shape) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = np.nan
        if np.isnan(labels).all():
            labels[0, 0] = 1.0
    probs = rng.integers(0, 9, labels.shape) / 8 if draw(st.booleans()) else rng.random(labels.shape)
    draws = rng.random((n_draws, *labels.shape)) < probs
    pairs = metrics.site_pairs(n_sites, n_pairs, rng)
    return {"labels": labels, "draws": draws, "pairs": pairs, "probs": probs}


# Slow references: one cell after the other, in exact fractions where order or equality matters ---------------


def mean(values):
    values = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    return sum(values) / len(values) if values else NAN


def loop_ranks(values):
    return [Fraction(2 * sum(b < a for b in values) + sum(b == a for b in values) + 1, 2) for a in values]


def loop_spearman(first, second):
    first, second = loop_ranks(first), loop_ranks(second)
    a = [rank - sum(first) / len(first) for rank in first]
    b = [rank - sum(second) / len(second) for rank in second]
    scale = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return float(sum(x * y for x, y in zip(a, b, strict=True))) / scale if scale else NAN


def loop_quantile(values, share, nearest):
    """R's types 3 (share * n - 1/2, an exact hit on an odd rank moves up) and 7."""
    values, n = sorted(values), len(values)
    if nearest:
        place = share * n - Fraction(1, 2)
        below = math.floor(place)
        rank = below if place == below and below % 2 == 0 else below + 1
        return values[max(rank, 1) - 1]
    place = share * (n - 1)
    below = math.floor(place)
    above = min(below + 1, n - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def loop_species_auc(values, present, dialect):
    hits = [values[i] for i in range(len(values)) if present[i]]
    misses = [values[i] for i in range(len(values)) if not present[i]]
    if not hits or not misses:
        return 1.0 if dialect == "gomes" else NAN
    area = sum((h > m) + (h == m) / 2 for h in hits for m in misses) / (len(hits) * len(misses))
    turned = dialect == "norberg" and statistics.median(misses) > statistics.median(hits)
    return 1 - area if turned else area


def loop_species_calibration(values, present, dialect):
    n = len(values)
    breaks = [loop_quantile(values, Fraction(k, 10), nearest=False) for k in range(11)]
    errors = [p - y for p, y in zip(values, present, strict=True)]
    if dialect == "norberg":
        bins = [[i for i in range(n) if breaks[b] <= values[i] < breaks[b + 1]] for b in range(10)]
        terms = [abs(errors[i]) / (1 if b in (0, 9) else len(bins[b])) for b in range(10) for i in bins[b]]
        return float(sum(terms) / len(terms) if terms else sum(abs(error) for error in errors) / n / n)
    bins = [[] for _ in range(10)]
    for i in range(n):
        bins[next(k for k in range(1, 11) if values[i] <= breaks[k]) - 1].append(errors[i])
    if dialect == "gomes":
        return float(sum(abs(sum(chunk)) for chunk in bins))
    return float(mean([abs(sum(chunk)) / len(chunk) for chunk in bins if chunk]))


def loop_components(first, second, dialect):
    """sor, sim, sne of two sets of species."""
    a, b, c = len(first & second), len(first - second), len(second - first)
    sor = Fraction(b + c, 2 * a + b + c) if a + b + c else None
    sim = Fraction(min(b, c), a + min(b, c)) if a + min(b, c) else None
    if dialect == "gomes":
        sor, sim = sor or Fraction(0), sim or Fraction(0)
        return sor, sim, sor - sim
    sne = Fraction(5, 1000) if sim is None else sor - sim
    sor, sim = (Fraction(995, 1000) if value is None else value for value in (sor, sim))
    return sor, sim, sne


def loop_ensemble(truth, drawn, dialect, expected=None):
    """Four numbers from exact values per item and, for each item, its draws."""
    if not truth:
        return [NAN] * 4
    n_draws = len(drawn[0])
    if dialect == "norberg":
        accuracy = mean([abs(value - v) for v, values in zip(truth, drawn, strict=True) for value in values])
        order = mean([loop_spearman([values[r] for values in drawn], truth) for r in range(n_draws)])
    else:
        centres = expected or [sum(values) / Fraction(n_draws) for values in drawn]
        accuracy = math.sqrt(mean([(m - v) ** 2 for m, v in zip(centres, truth, strict=True)]))
        order = loop_spearman(centres, truth)
    ends = [[loop_quantile(values, Fraction(k, 4), nearest=dialect == "norberg") for k in (1, 3)] for values in drawn]
    inside = [low <= v <= high for v, (low, high) in zip(truth, ends, strict=True)]
    spread = statistics.pstdev if dialect == "gomes" else statistics.stdev
    single = n_draws == 1 and dialect != "gomes"
    precision = NAN if single else mean([spread([float(value) for value in values]) for values in drawn])
    return [float(accuracy), order, abs(sum(inside) / len(inside) - 0.5), precision]


def loop_measures(labels, draws, pairs, probs, dialect):
    n_sites, n_species = labels.shape
    seen = [[not math.isnan(cell) for cell in row] for row in labels]
    if dialect == "norberg":
        probs = [[Fraction(int(sum(draws[:, i, j])), len(draws)) for j in range(n_species)] for i in range(n_sites)]
    else:
        probs = [[Fraction(float(p)) for p in row] for row in probs]
    cells = [(probs[i][j], int(labels[i, j])) for i in range(n_sites) for j in range(n_species) if seen[i][j]]
    areas, gaps = [], []
    for j in range(n_species):
        sites = [i for i in range(n_sites) if seen[i][j]]
        if sites:
            column = [probs[i][j] for i in sites], [int(labels[i, j]) for i in sites]
            areas.append(float(loop_species_auc(*column, dialect)))
            gaps.append(loop_species_calibration(*column, dialect))
    numbers = [
        float(mean([abs(p - y) for p, y in cells])),
        mean(areas),
        mean(gaps),
        mean([math.sqrt(p * (1 - p)) for p, _ in cells]),
    ]

    def species_at(table, site, other):
        return {j for j in range(n_species) if seen[site][j] and seen[other][j] and table[site, j] == 1}

    sites = [i for i in range(n_sites) if any(seen[i])]
    numbers += loop_ensemble(
        [len(species_at(labels, i, i)) for i in sites],
        [[len(species_at(draw, i, i)) for draw in draws] for i in sites],
        dialect,
        # Binary fractions add up exactly, random floats have no ties: rounding decides nothing here.
        [sum(probs[i][j] for j in range(n_species) if seen[i][j]) for i in sites] if dialect == "gomes" else None,
    )
    known = [(i, k) for i, k in pairs.T if any(seen[i][j] and seen[k][j] for j in range(n_species))]
    for place in range(3):
        truth, drawn = [], []
        for i, k in known:
            truth.append(loop_components(species_at(labels, i, k), species_at(labels, k, i), dialect)[place])
            both = [(species_at(draw, i, k), species_at(draw, k, i)) for draw in draws]
            drawn.append([loop_components(*pair, dialect)[place] for pair in both])
        numbers += loop_ensemble(truth, drawn, dialect)
    return dict(zip(MEASURES, numbers, strict=True))


# Known answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_all_measures__reference_cases__every_value(case, dialect):
    expected = expected_values(case, dialect)
    scores = measures_of(case, dialect)
    assert list(scores) == list(expected) == list(MEASURES)
    assert scores == pytest.approx(expected, abs=1e-9, rel=0)
    assert all(type(value) is float for value in scores.values())
    assert scores.dialect == dialect


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_all_measures__reference_cases__equal_the_slow_loops(case, dialect):
    """The loops know ties exactly; so does tie_digits."""
    expected = loop_measures(**CASES[case], dialect=dialect)
    assert measures_of(case, dialect, tie_digits=12) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("dialect", "exact"), [("gomes", 0.2353754583446661), ("text", 0.38516878347567185)])
def test_all_measures__tied_means__only_rounding_keeps_them_tied(dialect, exact):
    """The one number of the reference that rounding errors decide: its exact value is the loops' in fractions."""
    name = "comm_discrimination_sim"
    assert loop_measures(**TOY, dialect=dialect)[name] == pytest.approx(exact)
    assert measures_of("toy", dialect, tie_digits=12)[name] == pytest.approx(exact)
    assert measures_of("toy", dialect)[name] == pytest.approx(expected_values("toy", dialect)[name], abs=1e-9)
    rounded, plain = measures_of("toy", dialect, tie_digits=12), measures_of("toy", dialect)
    assert {key for key in plain if plain[key] != rounded[key]} == {name}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@settings(max_examples=80, deadline=None)
@given(case=cases())
def test_all_measures__any_world__equal_the_slow_loops(dialect, case):
    scores = all_measures(**case, dialect=dialect, tie_digits=12)
    assert scores == pytest.approx(loop_measures(**case, dialect=dialect), abs=1e-9, nan_ok=True)


def test_tiny__richness_by_hand():
    """Drawn 2 1 3 2, 2 3 1 1, 2 1 0 1, 1 2 3 2 for 2, 2, 1, 2: errors of draws 9/16, of means 0, 1/4, 0, 0."""
    observed, drawn = metrics.richness(TINY["labels"], TINY["draws"])
    assert observed.tolist() == [2, 2, 1, 2]
    assert drawn.T.tolist() == [[2, 1, 3, 2], [2, 3, 1, 1], [2, 1, 0, 1], [1, 2, 3, 2]]
    assert metrics.ensemble_accuracy(observed, drawn, "norberg") == 9 / 16
    assert metrics.ensemble_accuracy(observed, drawn, "gomes") == math.sqrt((1 / 4) ** 2 / 4)


# Occurrence ------------------------------------------------------------------------------------------------


def test_occurrence_discrimination__turned_curve__only_in_norberg_and_by_medians():
    """Presences .1, .2, .9 against an absence at .3: AUC 1/3; the medians .2 < .3 turn it into 2/3."""
    labels, probs = [[1], [1], [1], [0]], [[0.1], [0.2], [0.9], [0.3]]
    assert metrics.occurrence_discrimination(labels, probs, "norberg") == pytest.approx(2 / 3)
    for dialect in ("gomes", "text"):
        assert metrics.occurrence_discrimination(labels, probs, dialect) == pytest.approx(1 / 3)


def test_occurrence_discrimination__auc_below_half_but_medians_in_order__not_turned():
    """Presences .1, .4, .5, absences .3, .3, .9, .9, .2: medians .4 > .3, and 0 + 3 + 3 of 15 pairs in order."""
    labels = [[1]] * 3 + [[0]] * 5
    probs = [[0.1], [0.4], [0.5], [0.3], [0.3], [0.9], [0.9], [0.2]]
    for dialect in DIALECT_NAMES:
        assert metrics.occurrence_discrimination(labels, probs, dialect) == pytest.approx(6 / 15)


def test_occurrence_discrimination__medians_equal_up_to_a_bit__not_turned():
    """Presences .3 and .6, absences .45, .45 (one bit more) and .7: AUC (0 + 2) / 6, medians both .45."""
    above = np.nextafter(0.45, 1)
    labels, probs = [[1], [1], [0], [0], [0]], [[0.3], [0.6], [0.45], [above], [0.7]]
    assert np.median([0.45, above, 0.7]) > np.median([0.3, 0.6])
    assert metrics.occurrence_discrimination(labels, probs, "norberg") == pytest.approx(1 / 3)


def test_occurrence_calibration__constant_probabilities__one_bin():
    """Four sites at .5, one presence: counts 2 against 1; rates .5 against .25; cells .5 each, divided by 4."""
    labels, probs = [[1], [0], [0], [0]], np.full((4, 1), 0.5)
    assert metrics.occurrence_calibration(labels, probs, "gomes") == 1.0
    assert metrics.occurrence_calibration(labels, probs, "text") == 0.25
    assert metrics.occurrence_calibration(labels, probs, "norberg") == 0.125


def test_occurrence_calibration__gomes__grows_with_the_number_of_sites():
    labels, probs = np.tile(TOY["labels"], (3, 1)), np.tile(TOY["probs"], (3, 1))
    once, thrice = (metrics.occurrence_calibration(*args) for args in ((TOY["labels"], TOY["probs"]), (labels, probs)))
    assert thrice > 2 * once


def test_occurrence_calibration__norberg_21_sites__breaks_fall_exactly_on_sites():
    """Break k of 21 values is value 2k: bins of two, the last site dropped; bins 1 and 10 weigh double."""
    probs = (np.arange(21) / 100)[:, None]
    terms = [p / (1 if i < 2 or i >= 18 else 2) for i, p in enumerate(probs[:20, 0])]
    value = metrics.occurrence_calibration(np.zeros((21, 1)), probs, "norberg")
    assert value == pytest.approx(sum(terms) / 20, abs=1e-15)


# Draws of one number ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_draws", "ranks"), [(100, (25, 75)), (4, (1, 3)), (6, (2, 4)), (2, (1, 2)), (1, (1, 1)), (3, (1, 2))]
)
def test_ensemble_calibration__norberg__nearest_order_statistics(n_draws, ranks):
    """Draws 1 .. n. R's type 3 takes the nearest rank, the even one of two; both ends count as inside."""
    drawn = np.arange(1, n_draws + 1)[::-1, None]
    covered = [v for v in range(1, n_draws + 1) if metrics.ensemble_calibration([v], drawn, "norberg") == 0.5]
    inside = [v for v in covered if metrics.ensembles.interval_coverage(np.array([v]), drawn, 0.5, "nearest") == 1]
    assert (inside[0], inside[-1]) == ranks


@pytest.mark.parametrize("dialect", ["gomes", "text"])
def test_ensemble_calibration__linear__ends_are_interpolated_and_inclusive(dialect):
    """Draws 0, 1, 2, 3, 7: quartiles 1 and 3. Draws 0, 1: quartiles .25 and .75."""
    drawn = np.array([[0], [1], [2], [3], [7]])
    shares = [metrics.ensemble_calibration([1, 3, 0.9, v], np.tile(drawn, 4), dialect) for v in (3.1, 2)]
    assert shares == [0.0, 0.25]
    halves = np.tile([[0], [1]], 4)
    assert metrics.ensemble_calibration([0.25, 0.75, 0.2, 0.8], halves, dialect) == 0.0


def test_ensemble_calibration__interpolated_end_equals_the_truth__counts_as_inside():
    """A quarter of the way from 0.1 to 0.7 is .25, but not to the last bit of every sum."""
    low, high = 0.1, 0.7
    drawn = np.array([[low], [high]])
    for truth in (np.nextafter(0.25, 0), 0.25, np.nextafter(0.55, 1), 0.55):
        assert metrics.ensemble_calibration([truth, 0.0], np.tile(drawn, 2)) == 0.0


def test_ensemble_precision__one_draw__has_no_spread_with_n_minus_1():
    assert metrics.ensemble_precision([1, 2], [[1, 1]], "gomes") == 0.0
    assert math.isnan(metrics.ensemble_precision([1, 2], [[1, 1]], "norberg"))
    assert math.isnan(metrics.ensemble_precision([1, 2], [[1, 1]], "text"))


def test_ensemble_discrimination__constant_draws__skipped_by_norberg_alone():
    """Norberg averages the draws that vary; gomes takes the mean, whose order is that of the second draw."""
    drawn = [[5, 5, 5], [3, 2, 1]]
    assert metrics.ensemble_discrimination([1, 2, 3], drawn, "norberg") == -1.0
    assert metrics.ensemble_discrimination([1, 2, 3], drawn, "gomes") == -1.0
    for dialect in DIALECT_NAMES:
        assert math.isnan(metrics.ensemble_discrimination([1, 2, 3], [[5, 5, 5]], dialect))
        assert math.isnan(metrics.ensemble_discrimination([2, 2, 2], drawn, dialect))


def test_ensemble_measures__expected_given__takes_the_place_of_the_mean_except_in_norberg():
    observed, drawn, expected = [1, 2], [[1, 2], [1, 2]], [4, 2]
    assert metrics.ensemble_accuracy(observed, drawn, "gomes", expected=expected) == pytest.approx(math.sqrt(4.5))
    assert metrics.ensemble_discrimination(observed, drawn, "gomes", expected=expected) == -1.0
    assert metrics.ensemble_accuracy(observed, drawn, "norberg", expected=expected) == 0.0
    assert metrics.ensemble_discrimination(observed, drawn, "norberg", expected=expected) == 1.0


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_ensemble_measures__item_not_observed__as_if_it_were_not_there(dialect):
    rng = np.random.default_rng(0)
    observed, drawn, expected = rng.integers(0, 5, 9), rng.integers(0, 5, (6, 9)), rng.random(9)
    gap = np.where(np.arange(9) == 4, np.nan, observed)
    rest = np.arange(9) != 4
    for name in ("accuracy", "discrimination"):
        function = getattr(metrics, f"ensemble_{name}")
        value = function(observed[rest], drawn[:, rest], dialect, expected=expected[rest])
        assert function(gap, drawn, dialect, expected=expected) == value
    for name in ("accuracy", "discrimination", "calibration", "precision"):
        function = getattr(metrics, f"ensemble_{name}")
        assert function(gap, drawn, dialect) == function(observed[rest], drawn[:, rest], dialect)
        assert math.isnan(function([NAN, NAN], [[1, 2]], dialect))


# Communities -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "gomes", "others"),
    [
        ("11100", (1 / 5, 0, 1 / 5), (1 / 5, 0, 1 / 5)),  # nested: a 2, b 0, c 1
        ("00111", (1, 1, 0), (1, 1, 0)),  # nothing shared
        ("10100", (1 / 2, 1 / 2, 0), (1 / 2, 1 / 2, 0)),  # same number, one replaced
        ("10111", (2 / 3, 1 / 2, 1 / 6), (2 / 3, 1 / 2, 1 / 6)),  # a 1, b 1, c 3
        ("00000", (1, 0, 1), (1, 0.995, 0.005)),  # one site empty
    ],
)
def test_dissimilarity__against_two_species__by_hand(second, gomes, others):
    labels = communities(f"11000 {second}")[0]
    for dialect, values in zip(DIALECT_NAMES, (others, gomes, others), strict=True):
        for pairs in ([[0], [1]], [[1], [0]]):
            parts = metrics.dissimilarity(labels, labels[None], pairs, dialect)
            assert [parts[name].observed[0] for name in COMPONENTS] == pytest.approx(values, abs=1e-15)
            assert [parts[name].drawn[0, 0] for name in COMPONENTS] == pytest.approx(values, abs=1e-15)


@pytest.mark.parametrize(
    ("dialect", "values"),
    [("norberg", (0.995, 0.995, 0.005)), ("gomes", (0, 0, 0)), ("text", (0.995, 0.995, 0.005))],
)
def test_dissimilarity__both_sites_empty__by_dialect(dialect, values):
    labels = np.zeros((2, 3))
    parts = metrics.dissimilarity(labels, labels[None], [[0], [1]], dialect)
    assert tuple(parts[name].drawn[0, 0] for name in COMPONENTS) == values


def test_dissimilarity__equal_fractions__equal_to_the_last_bit():
    """sne 1/10 from (a, b, c) = (1, 1, 2) and from any other counts must tie; 2/20 and 4/40 do as plain products."""
    n = 14
    seen = {}
    for a in range(n):
        for b in range(n):
            for c in range(n):
                counts = (np.array([value], dtype=np.int32) for value in (a, a + b, a + c))
                values = ecology._dissimilarity(*counts, DIALECTS["gomes"])
                exact = loop_components(set(range(a + b)), set(range(a)) | set(range(50, 50 + c)), "gomes")
                for fraction, value in zip(exact, values, strict=True):
                    assert value[0] == float(fraction)
                    assert seen.setdefault(fraction, value[0]) == value[0]


def test_dissimilarity__self_pair__zero_in_gomes_unless_refused():
    parts = metrics.dissimilarity(TINY["labels"], TINY["draws"], [[1], [1]], "gomes")
    assert all((parts[name].drawn == 0).all() for name in COMPONENTS)


def test_site_pairs__many__different_sites_all_equally_likely():
    """Six pairs of four sites, 60,000 drawn: 10,000 each, standard deviation 91."""
    pairs = metrics.site_pairs(4, 60_000, random_state=3)
    assert pairs.shape == (2, 60_000)
    assert (pairs[0] < pairs[1]).all()
    found, counts = np.unique(pairs, axis=1, return_counts=True)
    assert [tuple(pair) for pair in found.T] == list(combinations(range(4), 2))
    assert (abs(counts - 10_000) < 400).all()


def test_site_pairs__seed_or_generator__reproducible():
    first = metrics.site_pairs(50)
    assert first.shape == (2, 300)
    np.testing.assert_array_equal(first, metrics.site_pairs(50, random_state=np.random.default_rng(0)))
    assert (first != metrics.site_pairs(50, random_state=1)).any()
    assert metrics.site_pairs(2, 3).tolist() == [[0, 0, 0], [1, 1, 1]]


# Invariances -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@settings(max_examples=40, deadline=None)
@given(case=cases(), random=st.randoms(use_true_random=False))
def test_all_measures__sites_species_pairs_and_draws_permuted__unchanged(dialect, case, random):
    n_draws, n_sites, n_species = case["draws"].shape
    sites, species, draws, pairs = (
        np.array(random.sample(range(n), n)) for n in (n_sites, n_species, n_draws, case["pairs"].shape[1])
    )
    shuffled = {
        "labels": case["labels"][np.ix_(sites, species)],
        "probs": case["probs"][np.ix_(sites, species)],
        "draws": case["draws"][np.ix_(draws, sites, species)],
        # Site i of before stands where sites == i; either site of a pair may come first.
        "pairs": np.argsort(sites)[case["pairs"]][::-1, pairs],
    }
    expected = all_measures(**case, dialect=dialect, tie_digits=12)
    assert all_measures(**shuffled, dialect=dialect, tie_digits=12) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_all_measures__perfect_and_certain__ideal_except_calibration_of_intervals(dialect, case):
    """An interval of one point holds the truth always, which is not half of the time: 0.5, the worst value."""
    labels = case["labels"]
    truth = np.nan_to_num(labels)
    scores = all_measures(labels, draws=np.tile(truth, (3, 1, 1)), pairs=case["pairs"], probs=truth, dialect=dialect)
    for name, value in scores.items():
        measure = MEASURES[name]
        if measure.aspect == "discrimination" and math.isnan(value):
            continue
        if measure.aspect == "calibration" and measure.level != "occurrence":
            assert math.isnan(value) or value == 0.5, name
        elif not math.isnan(value):
            assert value == pytest.approx(measure.ideal, abs=1e-12), name
    assert scores["occ_accuracy"] == scores["occ_precision"] == scores["occ_calibration"] == 0.0


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_all_measures__better_model__better_where_direction_says(dialect):
    """The true law of a virtual region against noise around the rates of its species; a wrong sign would show."""
    region = virtual_region(400, random_state=0)
    labels, features = region.dataset.labels, region.dataset.features
    pairs = metrics.site_pairs(400, 300)
    truth = all_measures(
        labels, draws=region.sample(features, 100, 1), pairs=pairs, probs=region.marginals, dialect=dialect
    )
    rng = np.random.default_rng(0)
    rates = np.clip(labels.mean(axis=0) + rng.normal(0, 0.1, labels.shape), 0, 1)
    draws = rng.random((100, *labels.shape)) < rates
    rival = all_measures(labels, draws=draws, pairs=pairs, probs=rates, dialect=dialect)
    for name, measure in MEASURES.items():
        if measure.aspect in ("accuracy", "discrimination") and measure.component in (None, "sor"):
            assert (truth[name] > rival[name]) is measure.greater_is_better, name


# Unobserved cells --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@settings(max_examples=40, deadline=None)
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_missing_cells__predictions_there__do_not_matter(dialect, case, seed):
    hidden = np.isnan(case["labels"])
    rng = np.random.default_rng(seed)
    draws = np.where(hidden, rng.random(case["draws"].shape) < 0.5, case["draws"])
    probs = np.where(hidden, rng.random(hidden.shape), case["probs"])
    expected = all_measures(**case, dialect=dialect)
    changed = all_measures(**(case | {"draws": draws, "probs": probs}), dialect=dialect)
    assert changed == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_missing_cells__whole_site_or_species__as_if_it_were_not_there(dialect):
    """Pairs with the site that was never visited go with it; its number of sites and pairs is said."""
    labels = np.full((13, 7), NAN)
    labels[:12, :6] = TOY["labels"]
    rng = np.random.default_rng(0)
    draws, probs = rng.random((20, 13, 7)) < 0.5, rng.random((13, 7))
    draws[:, :12, :6], probs[:12, :6] = TOY["draws"], TOY["probs"]
    pairs = np.hstack([TOY["pairs"], [[12, 3], [0, 12]]])
    scores = all_measures(labels, draws=draws, pairs=pairs, probs=probs, dialect=dialect)
    assert scores == pytest.approx(expected_values("toy", dialect), abs=1e-9, rel=0)
    assert (scores.n_sites, scores.n_species, scores.n_draws, scores.n_pairs) == (12, 6, 20, 40)


def test_missing_cells__by_hand__richness_and_pairs_over_what_was_observed():
    """Sites 110? and 1?01: richness 2 and 2; compared over species 1 and 3 alone: both hold 1 and lack 3."""
    labels = np.array([[1, 1, 0, NAN], [1, NAN, 0, 1]])
    draws = communities("1111 1111", "0101 0110")
    observed, drawn = metrics.richness(labels, draws)
    assert observed.tolist() == [2, 2]
    assert drawn.tolist() == [[3, 3], [1, 1]]
    parts = metrics.dissimilarity(labels, draws, [[0], [1]], "gomes")
    assert [parts[name].observed[0] for name in COMPONENTS] == [0, 0, 0]
    assert parts["sor"].drawn[:, 0].tolist() == [0, 1]  # {1, 3} twice; nothing against {3}
    assert parts["sne"].drawn[:, 0].tolist() == [0, 1]


def test_missing_cells__no_species_observed_at_both_sites__no_value():
    labels = [[1, NAN], [NAN, 1]]
    for dialect in DIALECT_NAMES:
        scores = all_measures(labels, draws=np.ones((2, 2, 2)), pairs=[[0], [1]], dialect=dialect)
        assert scores.n_pairs == 0
        assert all(math.isnan(scores[name]) for name in MEASURES if name.startswith("comm"))
        assert scores["occ_accuracy"] == 0.0


def test_missing_cells__occurrence__species_judged_on_its_observed_sites():
    """Left: .2 and .4 of errors, AUC 1; one class: 1 in gomes; nothing observed: not there."""
    labels = [[1, 1, NAN], [0, NAN, NAN], [NAN, 1, NAN]]
    probs = [[0.8, 0.5, 0.1], [0.4, 0.0, 0.2], [0.0, 0.5, 0.3]]
    assert metrics.occurrence_accuracy(labels, probs) == pytest.approx((0.2 + 0.4 + 0.5 + 0.5) / 4)
    assert metrics.occurrence_discrimination(labels, probs, "gomes") == 1.0
    assert metrics.occurrence_discrimination([[1, NAN]], [[0.5, 0.5]], "gomes") == 1.0
    assert math.isnan(metrics.occurrence_discrimination([[1, NAN]], [[0.5, 0.5]], "text"))
    assert metrics.occurrence_calibration(labels, probs, "gomes") == pytest.approx((0.2 + 0.4 + 1.0) / 2)
    assert metrics.occurrence_calibration(labels, probs, "text") == pytest.approx((0.3 + 0.5) / 2)
    precision = (2 * 0.5 + math.sqrt(0.16) + math.sqrt(0.24)) / 4
    assert metrics.occurrence_precision(labels, probs) == pytest.approx(precision)


# What is given -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_draws__in_any_form__same_numbers(dialect, tmp_path):
    expected = measures_of("toy", dialect)
    draws = TOY["draws"]
    on_disk = np.lib.format.open_memmap(tmp_path / "draws.npy", "w+", np.int8, draws.shape)
    on_disk[:] = draws
    forms = {
        "bool": draws.astype(bool),
        "float": draws.astype(np.float32),
        "fortran": np.asfortranarray(draws),
        "reversed view": draws[::-1][::-1],
        "nested lists": draws.tolist(),
        "memory map": on_disk,
        "single communities": iter(draws),
        "blocks": (draws[start : start + 7] for start in range(0, 20, 7)),
        "list of blocks, one empty": [draws[:3], draws[3:3], draws[3:]],
    }
    for name, form in forms.items():
        scores = measures_of("toy", dialect, draws=form)
        assert scores == expected, name
        assert scores.n_draws == 20


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_all_measures__small_chunks__same_bits(dialect, monkeypatch):
    labels = np.where(np.random.default_rng(0).random(TOY["labels"].shape) < 0.2, NAN, TOY["labels"])
    expected = measures_of("toy", dialect, labels=labels)
    for cells in (1, 50, 200):
        monkeypatch.setattr("hotvae.metrics.ensembles._CELLS_PER_CHUNK", cells)
        assert measures_of("toy", dialect, labels=labels) == pytest.approx(expected, abs=1e-14)


def test_all_measures__probs_alone__occurrence_alone():
    scores = all_measures(TOY["labels"], probs=TOY["probs"])
    expected = expected_values("toy", "gomes")
    assert scores == pytest.approx({name: expected[name] for name in list(MEASURES)[:4]}, abs=1e-9)
    assert (scores.n_draws, scores.n_pairs) == (0, 0)


def test_all_measures__without_pairs__no_communities():
    scores = measures_of("toy", "text", pairs=None)
    expected = expected_values("toy", "text")
    assert scores == pytest.approx({name: expected[name] for name in list(MEASURES)[:8]}, abs=1e-9)


def test_all_measures__without_probs__mean_of_the_draws():
    """Tiny's probabilities are the mean of its draws."""
    for dialect in DIALECT_NAMES:
        assert measures_of("tiny", dialect, probs=None) == measures_of("tiny", dialect)


def test_all_measures__norberg__never_looks_at_probs():
    assert measures_of("toy", "norberg", probs=1 - TOY["probs"]) == measures_of("toy", "norberg")
    assert measures_of("toy", "gomes", probs=1 - TOY["probs"]) != measures_of("toy", "gomes")


def test_scores__printed_copied_and_pickled__still_say_their_dialect():
    scores = measures_of("tiny", "text")
    assert repr(scores).startswith("EcologyScores(dialect='text', {'occ_accuracy': 0.1875,")
    for again in (copy.copy(scores), copy.deepcopy(scores), pickle.loads(pickle.dumps(scores))):
        assert again == scores
        assert (again.dialect, again.n_sites, again.n_draws, again.n_pairs) == ("text", 4, 4, 4)


# Coverage ----------------------------------------------------------------------------------------------------


def test_richness_coverage__by_hand():
    """One species at each of two sites; richness drawn 0, 1, 1, 1 and 0, 0, 0, 1, and 1 observed at both.

    Quartiles .75 and 1 hold the first, 0 and .25 not the second. Of five places the first may take 2 to 5 (three
    draws and itself): [.2, 1], of which [.25, .75] is 5/8; the second 4 or 5: [.6, 1], of which .15 is 3/8.
    """
    labels = [[1], [1]]
    draws = np.array([[0, 0], [1, 0], [1, 0], [1, 1]])[:, :, None]
    assert metrics.richness_coverage(labels, draws) == 0.5
    assert metrics.richness_coverage(labels, draws, ties="shared") == pytest.approx((5 / 8 + 3 / 8) / 2)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(0, 4), min_size=2, max_size=9))
def test_richness_coverage__shared_ties_and_every_draw_once_the_truth__exactly_the_level(level, values):
    """If truth and draws may change places, the mean coverage is the nominal one, whatever the numbers."""
    sites = [[1] * value + [0] * (4 - value) for value in values]
    shares = [
        metrics.richness_coverage([site], [[other] for k, other in enumerate(sites) if k != i], level, "shared")
        for i, site in enumerate(sites)
    ]
    assert sum(shares) / len(shares) == pytest.approx(level)


def test_richness_coverage__true_law__shared_is_right_and_inclusive_too_high():
    region = virtual_region(2000, random_state=1)
    draws = region.sample(region.dataset.features, 100, random_state=2)
    labels = region.dataset.labels
    inclusive, shared = (metrics.richness_coverage(labels, draws, ties=ties) for ties in ("inclusive", "shared"))
    assert shared == pytest.approx(0.5, abs=0.03)
    assert inclusive > shared + 0.03
    calibration = all_measures(labels, draws=draws, dialect="gomes")["rich_calibration"]
    assert calibration == pytest.approx(inclusive - 0.5)
    certain = np.repeat(draws.mean(axis=0, keepdims=True).round(), 100, axis=0)
    assert metrics.richness_coverage(labels, certain, ties="shared") < 0.2


def test_richness_coverage__wider_level__covers_more():
    shares = [metrics.richness_coverage(TOY["labels"], TOY["draws"], level) for level in (0.1, 0.5, 0.95)]
    assert shares[0] < shares[1] < shares[2]
    labels = TOY["labels"].copy()
    labels[4] = NAN
    rest = np.arange(12) != 4
    for ties in ("inclusive", "shared"):
        expected = metrics.richness_coverage(TOY["labels"][rest], TOY["draws"][:, rest], ties=ties)
        assert metrics.richness_coverage(labels, TOY["draws"], ties=ties) == expected


# Tables ------------------------------------------------------------------------------------------------------


def test_measures__table__twenty_numbers_with_direction():
    assert len(MEASURES) == 20
    assert [measure.level for measure in MEASURES.values()] == ["occurrence"] * 4 + ["richness"] * 4 + [
        "community"
    ] * 12
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.aspect in name
        assert measure.greater_is_better is (measure.aspect == "discrimination") is (measure.ideal == 1)
        assert (measure.component is not None) is (measure.level == "community")
    assert len({measure.title for measure in MEASURES.values()}) == 20
    with pytest.raises(TypeError):
        MEASURES["occ_accuracy"] = None
    with pytest.raises(TypeError):
        DIALECTS["mine"] = DIALECTS["gomes"]


def test_measures_frame__results_and_a_published_row__side_by_side():
    ours, published = measures_of("tiny", "gomes"), {"rich_accuracy": 2, "occ_discrimination": 0.9}
    frame = metrics.measures_frame({"ours": ours, "published": published})
    assert list(frame.columns) == ["dialect", "level", "aspect", "component", "better", "ideal", "ours", "published"]
    assert frame.index.name == "measure"
    assert list(frame.index) == list(MEASURES)
    assert frame["ours"].to_dict() == dict(ours)
    assert frame.loc["occ_discrimination"].tolist() == [
        "gomes",
        "occurrence",
        "discrimination",
        "",
        "higher",
        1,
        1,
        0.9,
    ]
    assert frame.loc["comm_precision_sne"].tolist()[:6] == ["gomes", "community", "precision", "sne", "lower", 0]
    assert frame["published"].notna().sum() == 2
    assert frame["published"].dtype == float
    alone = metrics.measures_frame({"published": published}, dialect="norberg")
    assert set(alone["dialect"]) == {"norberg"}
    assert isinstance(alone, pd.DataFrame)


# Mistakes ----------------------------------------------------------------------------------------------------

ZEROS = np.zeros((2, 2, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [[2, 0, 1], [0, 0, 1]]}, r"labels must be 0, 1 or NaN; got 2 in label 0 \(rows 0\)"),
        ({"probs": [[0.5, 0.5, 1.5]] * 2}, r"probs must be between 0 and 1; got 1\.5"),
        ({"probs": [[0.5, 0.5]] * 2}, r"probs must have the shape of labels, \(2, 3\); got \(2, 2\)"),
        ({"draws": 3}, r"draws must be an array or an iterable of arrays; got int\. .*blocks one after the other"),
        ({"draws": ["abc"]}, r"draws must be a dense array of numbers; got str \(dtype <U3\)\. Convert it first"),
        ({"draws": [[[1], [1, 0]]]}, r"draws must be a dense array of numbers; got list \(.*\)\. Convert it first"),
        ({"draws": np.zeros((2, 3))}, r"draws must have shape \(n_draws, 2, 3\), .*; got \(2, 3\)\. Put the draws"),
        ({"draws": np.zeros((2, 3, 2))}, r"draws must have shape \(n_draws, 2, 3\), .*; got \(2, 3, 2\)"),
        ({"draws": [ZEROS, ZEROS[..., :2]]}, r"draws must have shape \(n_draws, 2, 3\), .*; got \(2, 2, 2\)"),
        (
            {"draws": [ZEROS, ZEROS + np.eye(2, 3) * 0.4]},
            r"draws must be 0 or 1; got 0\.4 \(draw 2, site 0, species 0\)\. Probabilities\? .*pass probs=",
        ),
        ({"draws": np.full((1, 2, 3), NAN)}, r"draws must be 0 or 1; got nan \(draw 0, site 0, species 0\)"),
        ({"draws": ZEROS[:0]}, r"draws must hold at least one community; got none\. 100 draws are customary"),
        ({"draws": []}, "draws must hold at least one community; got none"),
        (
            {"pairs": [[0, 1], [0, 1], [1, 0]]},
            r"pairs must be whole numbers of shape \(2, n_pairs\) .*; got int64 of shape \(3, 2\)\. Draw them with",
        ),
        ({"pairs": [[0.0], [1.0]]}, r"pairs must be whole numbers .*; got float64 of shape \(2, 1\)"),
        ({"pairs": np.zeros((2, 0), int)}, r"pairs must be .* with at least one pair; got int64 of shape \(2, 0\)"),
        ({"pairs": [["a"], ["b"]]}, r"pairs must be a dense array of numbers; got list \(dtype <U1\)"),
        (
            {"pairs": [[0, 1], [1, 2]]},
            r"pairs must be sites from 0 to 1; got \(1, 2\) \(pairs 1\)\. Count sites from 0",
        ),
        ({"pairs": [[-1], [1]]}, r"pairs must be sites from 0 to 1; got \(-1, 1\) \(pairs 0\)"),
        (
            {"pairs": [[0, 1], [1, 1]], "dialect": "norberg"},
            r"pairs must join two different sites; got site 1 with itself \(pairs 1\)\. Only dialect 'gomes'",
        ),
        ({"pairs": [[0, 1], [1, 1]], "dialect": "text"}, "pairs must join two different sites; got site 1"),
    ],
)
def test_all_measures__data_that_do_not_fit__clear_error(changes, message):
    good = {"labels": [[1, 0, 1], [0, 0, 1]], "draws": ZEROS, "pairs": [[0], [1]], "probs": np.full((2, 3), 0.5)}
    with pytest.raises(DataError, match=message):
        all_measures(**(good | changes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: all_measures([[1]], probs=[[1]], dialect="R"),
            r"dialect must be one of 'norberg', 'gomes', 'text'; got 'R'\. Take 'gomes' to compare with HOT-VAE",
        ),
        (lambda: all_measures([[1]]), r"draws or probs must be given; got neither\. Pass draws= for all 20 numbers"),
        (
            lambda: all_measures([[1]], probs=[[1]], dialect="norberg"),
            r"draws must be given for dialect 'norberg'; got probs alone\. It judges occurrence by the mean",
        ),
        (
            lambda: all_measures([[1]], probs=[[1]], pairs=[[0], [0]]),
            r"pairs must come with draws; got pairs and probs alone\. Pass draws=, or leave pairs out",
        ),
        (
            lambda: all_measures([[1]], probs=[[1]], tie_digits=1.5),
            r"tie_digits must be a whole number or None; got 1\.5\. Take 12 for exact ties",
        ),
        (lambda: metrics.ensemble_discrimination([1], [[1]], tie_digits=True), "tie_digits must be .*; got True"),
        (lambda: metrics.site_pairs(1), r"n_sites must be a whole number of at least 2; got 1\."),
        (lambda: metrics.site_pairs(3.0), r"n_sites must be a whole number of at least 2; got 3\.0"),
        (lambda: metrics.site_pairs(3, 0), r"n_pairs must be a whole number of at least 1; got 0\."),
        (lambda: metrics.site_pairs(3, True), "n_pairs must be a whole number of at least 1; got True"),
        (lambda: metrics.site_pairs(3, 1, -1), "random_state must be a whole number, 0 or larger, .*; got -1"),
        (lambda: metrics.site_pairs(3, 1, "a"), "random_state must be a whole number, 0 or larger, .*; got 'a'"),
        (
            lambda: metrics.richness_coverage([[1]], [[[1]]], 1.0),
            r"level must lie between 0 and 1; got 1\.0\. Take 0\.5 for the central half",
        ),
        (lambda: metrics.richness_coverage([[1]], [[[1]]], NAN), "level must lie between 0 and 1; got nan"),
        (
            lambda: metrics.richness_coverage([[1]], [[[1]]], ties="half"),
            "ties must be 'inclusive' or 'shared'; got 'half'",
        ),
        (
            lambda: metrics.measures_frame({"a": measures_of("tiny", "gomes"), "b": measures_of("tiny", "text")}),
            r"results must all speak one dialect; got 'a gomes', 'b text'\. Compute them anew",
        ),
        (
            lambda: metrics.measures_frame({"a": measures_of("tiny", "gomes")}, dialect="norberg"),
            r"results must all speak one dialect; got 'a gomes', 'dialect= norberg'",
        ),
        (
            lambda: metrics.measures_frame({"a": {"occ_accuracy": 1}}),
            r"results must all speak one dialect; got none\. .*name that of published rows with dialect=",
        ),
        (lambda: metrics.measures_frame({"a": {}}, dialect="R"), "dialect must be one of .*; got 'R'"),
    ],
)
def test_options__that_do_not_fit__clear_error(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.measures_frame({}), "results must hold at least one model; got none"),
        (
            lambda: metrics.measures_frame({"a": {"comm_accuracy_nes": 1}}, dialect="gomes"),
            r"results must hold measures such as 'occ_accuracy', 'occ_discrimination', \+18 more; "
            r"got 'comm_accuracy_nes' of 'a'\. Published tables write nes for sne",
        ),
        (
            lambda: metrics.measures_frame({"level": {}}, dialect="gomes"),
            r"results must name models unlike the columns; got 'level'\. Choose another name",
        ),
        (
            lambda: metrics.ensemble_accuracy([1, 2], [[1], [2]]),
            r"observed and drawn must have shapes \(n_items,\) and \(n_draws, n_items\), neither empty; "
            r"got \(2,\) and \(2, 1\)\. Put the draws on the first axis",
        ),
        (
            lambda: metrics.ensemble_precision([[1]], [[1]]),
            r"observed and drawn must have .*; got \(1, 1\) and \(1, 1\)",
        ),
        (lambda: metrics.ensemble_calibration([1], np.zeros((0, 1))), r"neither empty; got \(1,\) and \(0, 1\)"),
        (lambda: metrics.ensemble_accuracy(["a"], [[1]]), "observed must be a dense array of numbers; got list"),
        (lambda: metrics.ensemble_accuracy([1], [["a"]]), "drawn must be a dense array of numbers; got list"),
        (
            lambda: metrics.ensemble_calibration([1, NAN], [[NAN, 1]]),
            r"drawn must be finite where observed is known; got NaN or infinity\. Check the draws",
        ),
        (
            lambda: metrics.ensemble_accuracy([1, 2], [[1, 2]], expected=[1]),
            r"expected must hold one finite number for each of 2 items; got shape \(1,\), 0 of them NaN\. Leave it out",
        ),
        (
            lambda: metrics.ensemble_discrimination([1, 2], [[1, 2]], expected=[1, NAN]),
            r"expected must hold one finite number for each of 2 items; got shape \(2,\), 1 of them NaN",
        ),
    ],
)
def test_tables_and_ensembles__that_do_not_fit__clear_error(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_all_measures__other_mistakes__found_before_a_draw_is_taken():
    def draws():
        raise AssertionError("a draw was taken")
        yield

    with pytest.raises(DataError, match="pairs must be sites"):
        all_measures([[1, 0]], draws=draws(), pairs=[[0], [5]])
    with pytest.raises(DataError, match="probs must be between"):
        all_measures([[1, 0]], draws=draws(), probs=[[2, 0]])


# Size --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_all_measures__survey_of_2300_sites__little_memory(dialect):
    """100 species, 100 draws, 300 pairs."""
    rng = np.random.default_rng(0)
    probs = rng.random((2300, 100)) ** 3
    labels = np.where(rng.random(probs.shape) < 0.05, NAN, rng.random(probs.shape) < probs)
    draws = rng.random((100, *probs.shape)) < probs
    pairs = metrics.site_pairs(2300, 300)
    tracemalloc.start()
    all_measures(labels, draws=draws, pairs=pairs, probs=probs, dialect=dialect)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.slow
def test_all_measures__blocks_of_draws__never_all_in_memory():
    """1,000 draws of 500 x 40 are 20 MB as bytes; one at a time, their counts are 2 MB."""
    rng = np.random.default_rng(0)
    probs = rng.random((500, 40))
    labels = rng.random(probs.shape) < probs
    pairs = metrics.site_pairs(500, 20)
    tracemalloc.start()
    scores = all_measures(labels, draws=(rng.random(probs.shape) < probs for _ in range(1000)), pairs=pairs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert scores.n_draws == 1000
    assert peak < 15e6
