"""Labels of the nearest training rows, mixed into what a network says."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hotvae import load_model
from hotvae.baselines.neighbours import LatentNeighbours
from hotvae.baselines.plain import PlainNetClassifier
from hotvae.checkpoint import seal
from hotvae.cli import app
from hotvae.errors import ConfigError, ModelError
from hotvae.estimators.registry import find_classifier
from hotvae.metrics import log_loss

NETWORKS = ("plain", "mpvae", "c2ae", "lamp", "seq2seq")
FEW = {"dim": 8, "encoder_widths": (16,), "covariance_epochs": 1, "random_state": 0}


def small(name, **settings):
    """A small network of a kind."""
    cls = find_classifier(name)
    names = cls.all_settings()
    return cls.from_settings(**{key: value for key, value in (FEW | settings).items() if key in names})


def heaps(n_rows, seed, n_heaps=60, spread=0.4):
    """Heaps of rows, each of which has its own labels at random: close rows are alike, and there is no direction."""
    centres = np.random.default_rng(0).normal(size=(n_heaps, 20))
    kinds = np.random.default_rng(1).random((n_heaps, 4)) < 0.5
    rng = np.random.default_rng(seed)
    heap = rng.integers(n_heaps, size=n_rows)
    return centres[heap] + spread * rng.normal(size=(n_rows, 20)), kinds[heap].astype(float)


def test_mix__three_rows__match_hand_calculation():
    """A row at 60 degrees from the first and 30 from the second; the third is not among its two nearest."""
    places = torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, -1.0]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 0.0], [0.0, torch.nan], [1.0, 1.0]], dtype=torch.float64)
    neighbours = LatentNeighbours(places, labels, 2, share=0.25, temperature=0.5)
    row = torch.tensor([[1.0, np.sqrt(3.0)]], dtype=torch.float64)
    first, second = np.exp(0.5 / 0.5), np.exp(np.sqrt(0.75) / 0.5)
    first, second = first / (first + second), second / (first + second)
    mixed = neighbours.mix(torch.tensor([[0.6, 0.6]], dtype=torch.float64), row)
    expected = [0.6 + 0.25 * (first * (1 - 0.6) + second * (0 - 0.6)), 0.6 + 0.25 * first * (0 - 0.6)]
    np.testing.assert_allclose(mixed.numpy(), [expected], rtol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.02, 0.1, 1.0]), st.floats(0, 1))
def test_mix__loop_over_rows_neighbours_and_labels__gives_the_same(seed, n_neighbours, temperature, share):
    rng = np.random.default_rng(seed)
    places, rows = rng.normal(size=(9, 3)), rng.normal(size=(4, 3))
    labels = np.where(rng.random((9, 5)) < 0.3, np.nan, rng.integers(2, size=(9, 5)))
    probs = rng.random((4, 5))
    neighbours = LatentNeighbours(*map(torch.from_numpy, (places, labels)), n_neighbours, share, temperature)
    mixed = neighbours.mix(torch.from_numpy(probs), torch.from_numpy(rows)).numpy()
    for i, row in enumerate(rows):
        cosines = [row @ place / np.linalg.norm(row) / np.linalg.norm(place) for place in places]
        near = sorted(range(9), key=lambda j: -cosines[j])[:n_neighbours]
        weights = [np.exp((cosines[j] - max(cosines)) / temperature) for j in near]
        for label in range(5):
            seen = [(w, labels[j, label]) for w, j in zip(weights, near, strict=True) if not np.isnan(labels[j, label])]
            moved = sum(w * (value - probs[i, label]) for w, value in seen) / sum(weights)
            assert mixed[i, label] == pytest.approx(np.clip(probs[i, label] + share * moved, 0, 1), abs=1e-9)


def test_from_tensors__gaps_and_all__mixes_to_the_same_bits():
    rng = np.random.default_rng(0)
    places = torch.from_numpy(rng.normal(size=(9, 3)).astype(np.float32))
    labels = torch.from_numpy(np.where(rng.random((9, 5)) < 0.3, np.nan, rng.integers(2, size=(9, 5)))).float()
    neighbours = LatentNeighbours(places, labels, 4, 0.3, 0.1)
    assert neighbours.tensors()["labels"].dtype == torch.uint8
    copy = LatentNeighbours.from_tensors(**neighbours.tensors(), n_neighbours=4, share=0.3, temperature=0.1)
    probs, rows = torch.rand(6, 5), torch.randn(6, 3)
    assert torch.equal(copy.mix(probs, rows), neighbours.mix(probs, rows))


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_network__rows_in_heaps__learns_more_with_neighbours(name):
    """Whatever helps a latent space is no merit of one model: every network that has one can have it."""
    train, validation, test = heaps(300, 2), heaps(100, 4), heaps(200, 3)
    models = [small(name, max_epochs=8, latent_neighbours=n).fit(*train, validation=validation) for n in (5, 0)]
    losses = [log_loss(test[1], model.predict_proba(test[0])) for model in models]
    assert losses[0] < 0.97 * losses[1]


def test_network__labels_that_nothing_tells__remembers_nobody():
    """With so many validation rows chance finds no use for neighbours of a coin."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(3400, 3)), (rng.random((3400, 4)) < 0.5).astype(float)
    train, validation = (features[:400], labels[:400]), (features[400:], labels[400:])
    model, alone = (
        small("plain", max_epochs=3, latent_neighbours=n).fit(*train, validation=validation) for n in (2, 0)
    )
    assert model.neighbours_ is None
    np.testing.assert_array_equal(model.predict_proba(features), alone.predict_proba(features))


def test_network__share_and_temperature__are_the_best_of_validation_rows():
    train, validation = heaps(300, 2), heaps(100, 4)
    model = small("plain", max_epochs=3, latent_neighbours=5).fit(*train, validation=validation)
    reached = log_loss(validation[1], model.predict_proba(validation[0]))
    neighbours = model.neighbours_
    for neighbours.share in (0.0, 0.1, 0.3, 0.6):
        for neighbours.temperature in (0.02, 0.1, 0.2):
            assert log_loss(validation[1], model.predict_proba(validation[0])) >= reached - 1e-9


def test_network__no_validation_rows__remembers_nobody():
    train = heaps(30, 2)
    model = small("plain", max_epochs=1, latent_neighbours=5, validation_fraction=0.0).fit(*train)
    assert model.neighbours_ is None


def test_network__many_rows__are_remembered_in_part(monkeypatch):
    monkeypatch.setattr("hotvae.baselines.neighbours._MOST_REMEMBERED", 40)
    model = small("plain", max_epochs=2, latent_neighbours=5).fit(*heaps(300, 2), validation=heaps(100, 4))
    assert len(model.neighbours_.places) == 40


@pytest.mark.parametrize("wrong", [-1, 1.5, "ten"])
def test_network__wrong_number__names_it(wrong):
    model = PlainNetClassifier.from_settings(latent_neighbours=wrong, max_epochs=1, encoder_widths=(4,))
    with pytest.raises(ConfigError, match="latent_neighbours"):
        model.fit(*heaps(60, 2))
    assert not hasattr(model, "network_")  # before anything was trained


@pytest.fixture(scope="module")
def remembering():
    model = small("mpvae", max_epochs=4, latent_neighbours=5).fit(*heaps(300, 2), validation=heaps(100, 4))
    assert model.neighbours_ is not None
    return model


def test_network__row_alone_or_among_others__has_the_same_bits(remembering):
    features = heaps(300, 3)[0]
    probs = remembering.predict_proba(features)
    np.testing.assert_array_equal(probs[17:18], remembering.predict_proba(features[17:18]))
    np.testing.assert_array_equal(probs[::-1], remembering.predict_proba(features[::-1]))


def test_sample__with_neighbours__has_the_mixed_probabilities():
    model = small("mpvae", max_epochs=4, latent_neighbours=5).fit(*heaps(300, 2), validation=heaps(100, 4))
    assert model.neighbours_ is not None
    features = heaps(20, 3)[0]
    drawn = model.sample(features, 4000, random_state=0).mean(axis=0)
    np.testing.assert_allclose(drawn, model.predict_proba(features), atol=0.04)


def test_save__with_neighbours__read_back_predicts_the_same_bits(remembering, tmp_path):
    remembering.save(tmp_path / "model")
    features = heaps(40, 3)[0]
    copy = load_model(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(features), remembering.predict_proba(features))
    assert copy.neighbours_.n_neighbours == 5


def test_info__with_neighbours__says_what_the_file_holds(remembering, tmp_path):
    """Rows are no weights, and whoever passes a model on should know of them."""
    remembering.save(tmp_path / "model")
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "model")])
    assert (
        "remembers   labels and latent places of 300 training rows; a row's 5 nearest have a share of" in shown.stdout
    )
    found = json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "model"), "--json"]).stdout)
    assert found["neighbours"]["n_rows"] == 300
    weights = [value for name, value in remembering.network_.state_dict().items() if value.is_floating_point()]
    assert found["n_parameters"] == sum(value.numel() for value in weights)


def test_load__neighbours_noted_but_not_there__is_refused(remembering, tmp_path):
    small("plain", max_epochs=1).fit(*heaps(60, 2)).save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    notes = json.loads(config.read_text())
    config.write_text(json.dumps(notes | {"neighbours": {"n_neighbours": 5, "share": 0.5, "temperature": 0.1}}))
    seal(tmp_path / "model")
    with pytest.raises(ModelError, match="places"):
        load_model(tmp_path / "model")


def test_fit__texts__have_neighbours_too():
    texts = ["wet meadow", "dry rock", "wet bog", "dry slope"] * 20
    labels = np.array([[1, 0], [0, 1], [1, 0], [0, 1]] * 20)
    model = small("plain", encoder="text", latent_neighbours=3, max_epochs=1).fit(texts, labels)
    assert model.neighbours_ is not None
    assert log_loss(labels, model.predict_proba(texts)) < 0.6
