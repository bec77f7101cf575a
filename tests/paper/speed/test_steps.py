"""The yardsticks themselves: the plain layout is the same model, and clocks, counters and scales read true."""

import json
import math
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention

from hotvae.config import NetConfig
from hotvae.features import Rows
from hotvae.metrics import log_loss
from hotvae.net.model import HotVAE
from paper.speed import growth, steps, time_to_accuracy
from paper.speed.reference_layout import (
    ReferenceHotVAE,
    TransformerNet,
    in_our_names,
    pairwise_ranking,
)

N_ROWS, N_FEATURES, N_LABELS = 6, 4, 5
TINY = {
    "dim": 8,
    "n_heads": 2,
    "encoder_widths": (7,),
    "label_encoder_widths": (6,),
    "conditional": False,
}
STILL = {"encoder_dropout": 0.0, "decoder_dropout": 0.0}
CHAIN = torch.from_numpy(np.abs(np.subtract.outer(np.arange(N_LABELS), np.arange(N_LABELS))) <= 1)


@pytest.fixture
def tape(monkeypatch):
    """Latent noise from one tape, so that both layouts hear the same numbers in however many pieces they ask."""
    numbers, place = torch.randn(10_000, dtype=torch.float64), [0]

    def next_numbers(like):
        start, place[0] = place[0], place[0] + like.numel()
        return numbers[start : place[0]].view_as(like)

    monkeypatch.setattr(torch, "randn_like", next_numbers)
    return lambda: place.__setitem__(0, 0)


def tables():
    """Rows with gaps, one without any present label and one without any observed one."""
    labels = (torch.rand(N_ROWS, N_LABELS, dtype=torch.float64) < 0.5).double()
    labels[0, 1] = labels[2, 3] = math.nan
    labels[3] = 0.0
    labels[4] = math.nan
    return torch.randn(N_ROWS, N_FEATURES, dtype=torch.float64), labels


# The reference layout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [None, CHAIN], ids=["complete", "chain"])
@pytest.mark.parametrize("settings", [{}, {"n_layers": 3, "direct_path": False}], ids=["default", "three layers"])
def test_reference_layout__same_weights_no_dropout__same_values_and_gradients(graph, settings, tape):
    config = NetConfig(**TINY, **STILL, **settings)
    theirs = ReferenceHotVAE(N_FEATURES, N_LABELS, config, graph).double()
    ours = HotVAE(N_FEATURES, N_LABELS, config, graph).double()
    weights = in_our_names(theirs.state_dict())
    if graph is None:  # then ours has no mask at all
        del weights["decoder.graph"]
    ours.load_state_dict(weights)
    features, labels = tables()

    results = {}
    for name, network in (("theirs", theirs), ("ours", ours)):
        tape()
        terms = network.loss(features, labels)
        sum(weight * term.sum() for weight, term in zip((1.0, 0.5, 0.7, 0.3), terms.values(), strict=True)).backward()
        tape()
        output = network(features, labels)
        logits = torch.cat([output.feature.layer_logits, output.label.layer_logits])
        results[name] = logits.detach(), {k: v.detach() for k, v in terms.items()}, network.predict(features).detach()
    exact = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(results["ours"], results["theirs"], **exact)
    gradients = in_our_names({name: value.grad for name, value in theirs.named_parameters()})
    for name, value in ours.named_parameters():
        torch.testing.assert_close(value.grad, gradients[name], **exact, msg=lambda text, name=name: f"{name}: {text}")
        if value.ndim > 1 and "query_key" not in name:
            assert value.grad.abs().max() > 1e-6  # equal, and not by being nothing


def test_reference_layout__every_dropout__attention_included_and_every_label_on_its_own():
    config = NetConfig(**TINY, decoder_dropout=0.5, encoder_dropout=0.0)
    layer = ReferenceHotVAE(N_FEATURES, N_LABELS, config).layers[0]
    assert layer.label_message.dropout.p == 0.5
    message = layer.dropout(torch.ones(1, N_LABELS, 64))
    assert not (message[0, 0] == message[0, 1]).all()


def test_pairwise_ranking__three_labels__matches_hand_calculation():
    """Present p=0.7; absent 0.2 and 0.9; scale 2: (exp(-1) + exp(0.4)) / (2 * 1 * 2) = 0.464926."""
    value = pairwise_ranking(torch.tensor([[0.7, 0.2, 0.9]]), torch.tensor([[1.0, 0.0, 0.0]]), 2.0)
    assert value.item() == pytest.approx((math.exp(-1) + math.exp(0.4)) / 4)


def test_transformer_net__graph_of_a_chain__hears_neighbours_only():
    network = TransformerNet(N_FEATURES, N_LABELS, NetConfig(**TINY, **STILL, n_layers=1), CHAIN)
    network.decode(torch.randn(2, 1, 8))[-1][:, 0].sum().backward()
    heard = network.embedding.grad.abs().sum(1) > 0
    assert heard.tolist() == [True, True, False, False, False]


def test_transformer_net__a_step__both_branches_and_every_layer():
    network = TransformerNet(N_FEATURES, N_LABELS, NetConfig(**TINY, n_layers=3))
    labels = torch.ones(N_ROWS, N_LABELS)
    output = network(torch.randn(N_ROWS, N_FEATURES), labels)
    assert output.feature.layer_logits.shape == output.label.layer_logits.shape == (3, N_ROWS, N_LABELS)
    assert set(network.loss(torch.randn(N_ROWS, N_FEATURES), labels)) == {"bce", "intermediate", "ranking", "kl"}


# Clocks, counters and scales ------------------------------------------------------------------------------


def test_run_steps__terms_that_take_their_time__each_step_timed_and_no_more_made():
    network = torch.nn.Linear(2, 1)
    calls = []

    def loss_of(features, labels, base_logits):
        calls.append(len(features))
        loss = F.mse_loss(network(features), labels, reduction="none").mean(-1)
        return dict.fromkeys(steps.TERM_WEIGHTS, loss)

    rows = Rows(np.ones((40, 2), np.float32), np.ones((40, 1), np.float32))
    before = network.weight.detach().clone()
    # a clock that a step moves on by two seconds
    contender = steps.Contender(network, loss_of, None)
    assert steps.run_steps(contender, rows, 4, 3, clock=lambda: 2.0 * len(calls)) == [2.0, 2.0, 2.0]
    assert calls == [4, 4, 4]
    assert not torch.equal(network.weight, before)


def test_run_steps__budget_spent__ends_after_warm_up_and_one_step():
    network = torch.nn.Linear(2, 1)

    def loss_of(features, labels, base_logits):
        return dict.fromkeys(steps.TERM_WEIGHTS, (network(features) - labels).mean(-1))

    rows = Rows(np.ones((40, 2), np.float32), np.ones((40, 1), np.float32))
    assert len(steps.run_steps(steps.Contender(network, loss_of, None), rows, 4, 8, budget=0.0)) == steps.N_WARMUP + 1


def test_run_steps__too_few_rows__refused():
    rows = Rows(np.ones((10, 2), np.float32), np.ones((10, 1), np.float32))
    with pytest.raises(ValueError, match="2 steps and the start of the next need 12 rows"):
        steps.run_steps(None, rows, 4, 2)


def test_count_operations__linear_map_there_and_back__three_products():
    """(6, 4) times (4, 5): 2 * 6 * 4 * 5 = 240; so is each of the two gradients."""
    layer, rows = torch.nn.Linear(4, 5), torch.randn(6, 4, requires_grad=True)
    assert steps.count_operations(lambda: layer(rows).sum().backward())["executed"] == 3 * 240


def test_count_operations__fused_attention__seen_there_and_back():
    """2 rows x 3 heads, 5 labels, 7 senders, 4 wide: a product is 2 * 6 * 5 * 7 * 4 = 1680. Two there, five back."""
    query, key, value = (torch.randn(2, 3, n, 4, requires_grad=True) for n in (5, 7, 7))
    counted = steps.count_operations(lambda: F.scaled_dot_product_attention(query, key, value).sum().backward())
    assert counted["executed"] == 7 * 1680
    assert counted["without_formula"] == []
    with torch.inference_mode():
        ahead = steps.count_operations(lambda: F.scaled_dot_product_attention(query, key, value))
    assert ahead["executed"] == 2 * 1680


def test_count_operations__product_without_formula__named():
    counted = steps.count_operations(lambda: torch._addmm_activation(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2)))
    assert counted["without_formula"] == ["aten._addmm_activation"]


def test_count_task__prediction__as_counted_by_hand():
    """Encoder 100-256-512-256 and mean, direct path, and per layer the token's value and eight maps of every label."""
    task = steps.Task(3, 8, 1, batch=4)
    encoder = 4 * 2 * (100 * 256 + 256 * 512 + 512 * 256 + 2 * 256 * 8)
    maps = 4 * 2 * 8 * 8 * (1 + 3 * 8) + 4 * 2 * 8 * 3
    attention = 2 * 2 * 4 * 3 * 3 * 8
    counted = steps.count_task(task)
    # between them: the log-variance need not be computed, the read-out may be a product or a sum
    slack = 4 * 2 * 256 * 8 + 4 * 2 * 3 * 8
    assert encoder + maps + attention - slack <= counted["predict"]["needed"] <= encoder + maps + attention + slack


def test_count_task__training_step__three_passes_of_both_branches_less_the_gradients_of_inputs():
    task = steps.Task(3, 8, 1, batch=4)
    encoders = 4 * 2 * (100 * 256 + 256 * 512 + 512 * 256 + 2 * 256 * 8) + 4 * 2 * (3 * 256 + 2 * 256 * 8)
    decoder = 8 * 2 * 8 * 8 * (1 + 3 * 8) + 8 * 2 * 8 * 3 + 2 * 2 * 8 * 3 * 3 * 8
    inputs = 4 * 2 * (100 * 256 + 3 * 256)
    counted = steps.count_task(task)["step"]
    slack = 3 * 8 * 2 * 3 * 8  # the read-out may be a product or a sum
    assert abs(counted["needed"] - (3 * (encoders + decoder) - inputs)) <= slack
    assert counted["executed"] >= counted["needed"] - slack


def test_peak_bytes__two_of_three_tensors_alive__size_of_two():
    def run():
        first, second = torch.empty(1000), torch.empty(2000)
        del first
        third = torch.empty(500)
        del second, third

    assert steps.peak_bytes(run) == 3000 * 4


def test_gemm_speed__one_product__operations_over_time(monkeypatch):
    """2 * 32**3 operations between clock readings 0.5 s apart."""
    monkeypatch.setattr(steps, "GEMM_SIZES", (32,))
    monkeypatch.setattr(steps.time, "perf_counter", iter((1.0, 1.5)).__next__)
    assert steps.gemm_speed(n_repeats=1) == 4 * 32**3


def test_break_even__known_times__steps_to_pay_or_never():
    assert steps.break_even(10.0, 0.10, 0.06) == 250
    assert steps.break_even(10.0, 0.10, 0.10) is None


def test_summarise__known_times__ratios_and_utilisation():
    """Ours 0.1 s at best for 1e9 operations on a machine of 20e9 a second: half is used. Theirs 0.4 s: four times."""
    task = steps.Task(3, 8, 1)
    times = {
        (task, "reference"): {"first": {}, "step": [[0.4, 0.5], [0.6]], "predict": [[0.3]]},
        (task, "eager"): {"first": {}, "step": [[0.2, 0.1], [0.3]], "predict": [[0.1]]},
        (task, "compiled"): {"first": {"step": 9.2, "predict": 1.2}, "step": [[0.1]], "predict": [[0.1]]},
    }
    operations = {name: {"needed": 10**9, "executed": 12 * 10**8} for name in ("step", "predict")}
    memory = {
        (task, "reference"): {"fits": True, "tensor_peak": 900},
        (task, "eager"): {"fits": True, "tensor_peak": 300},
    }
    cells = {v: steps.summarise(task, v, times, [5e9, 20e9], operations, memory) for _, v in times}
    eager, compiled = cells["eager"], cells["compiled"]
    assert eager["step"]["seconds_min"] == 0.1
    assert eager["step"]["seconds_median"] == 0.2
    assert eager["step"]["utilisation"] == pytest.approx(0.5)
    assert eager["step"]["utilisation_executed"] == pytest.approx(0.6)
    assert eager["step"]["speedup"] == pytest.approx(4.0)
    assert eager["step"]["speedup_median"] == pytest.approx(2.5)
    assert eager["memory"]["share_of_reference"] == pytest.approx(1 / 3)
    assert compiled["step"]["compile_seconds"] == pytest.approx(9.0)
    assert compiled["step"]["break_even"] == 90
    assert compiled["predict"]["break_even"] is None
    assert "utilisation" not in cells["reference"]["step"]


def test_exponent__square_beyond_a_bend__slope_of_the_largest_three():
    values = [1, 10, 20, 40]
    assert growth.exponent(values, [500, *(3 * v**2 for v in values[1:])]) == pytest.approx(2.0)
    assert growth.exponent([5], [1.0]) is None
    assert growth.exponent([1, 2], [None, 1.0]) is None


def test_first_reach__curve_crosses_the_goal__its_first_crossing():
    curve = [{"epoch": n, "seconds": 2.0 * n, "test": loss} for n, loss in enumerate((0.9, 0.5, 0.6, 0.4), start=1)]
    assert time_to_accuracy.first_reach(curve, "test", 0.5, 8.0) == curve[1] | {"ratio": 0.5}
    assert time_to_accuracy.first_reach(curve, "test", 0.3, 8.0) is None


# The programs ---------------------------------------------------------------------------------------------


def test_limited__more_memory_than_there_is__does_not_fit():
    assert steps._limited(None, torch.zeros, (2**45,))["reason"] == "does not fit into memory"
    with pytest.raises(RuntimeError, match="must match"):  # other errors are not taken for want of memory
        steps._limited(None, torch.add, (torch.ones(2), torch.ones(3)))


def compiled_and_eager():
    """Train and predict both ways; for a process without the shape checks of the tests, which cannot be compiled."""
    # not Inductor, whose C++ compiler takes a minute: what is traced and run is the same
    steps.BACKEND = "aot_eager"
    task = steps.Task(3, 8, 1, batch=4, settings=(("encoder_dropout", 0.0), ("decoder_dropout", 0.0)))
    rows, results = task.rows(12), {}
    for variant in ("eager", "compiled"):
        contender = steps.build(variant, task)
        n_steps = len(steps.run_steps(contender, rows, 4, 2))
        contender.network.eval()
        tensors = contender.network.state_dict() | {"probs": contender.predict(torch.ones(4, 100))}
        results[variant] = n_steps, {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    return results


@pytest.mark.slow
def test_compiled__two_steps_and_a_prediction__as_eager():
    results = steps.alone(compiled_and_eager)
    assert results["compiled"][0] == results["eager"][0] == 2
    for name, expected in results["eager"][1].items():
        np.testing.assert_allclose(results["compiled"][1][name], expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_first_passes__compiling_for_too_long__given_up():
    waited_for = []

    def slow(features, labels, base_logits):
        time.sleep(5)
        waited_for.append(features)

    contender = steps.Contender(torch.nn.Linear(100, 2), slow, None)
    assert steps.first_passes(contender, steps.Task(2, 4, 1).rows(12), 4, limit=0.1) is None
    assert not waited_for


def test_first_passes__mistake_within_the_limit__not_taken_for_lateness():
    def wrong(features, labels, base_logits):
        raise ZeroDivisionError

    contender = steps.Contender(torch.nn.Linear(100, 2), wrong, None)
    with pytest.raises(ZeroDivisionError):
        steps.first_passes(contender, steps.Task(2, 4, 1).rows(12), 4, limit=60)


@pytest.mark.slow
def test_speed__compiled_sizes__no_others_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "GEMM_SIZES", (32,))
    # the checks of shapes that tests switch on cannot be compiled
    monkeypatch.setattr(torch, "compile", lambda part, **settings: part)
    few = ["--rounds", "1", "--steps", "1", "--batch", "4", "--no-memory", "--out", str(tmp_path)]
    sizes = ["--sizes", "5,8,1", "4,8,1", "--compiled-sizes", "4,8,1", "--variants", "eager", "compiled"]
    steps.main([*few, *sizes])
    cells = json.loads((tmp_path / "speed.json").read_text())["cells"]
    assert [(cell["labels"], cell["variant"]) for cell in cells] == [(5, "eager"), (4, "eager"), (4, "compiled")]
    assert cells[2]["step"]["compile_seconds"] >= 0


@pytest.mark.slow
def test_speed__tiny__writes_every_number(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(steps, "GEMM_SIZES", (32,))
    # a process for each variant would take seconds
    monkeypatch.setattr(steps, "alone", lambda function, *arguments, share: function(*arguments))
    variants = ["reference", "transformer_decoder", "eager"]
    few = ["--rounds", "2", "--steps", "1", "--batch", "4", "--density", "0.5"]
    steps.main(["--sizes", "5,8,1", "4,8,2", *few, "--profile", "--out", str(tmp_path), "--variants", *variants])
    written = json.loads((tmp_path / "speed.json").read_text())
    assert [(cell["labels"], cell["variant"]) for cell in written["cells"]] == [
        (n, v) for n in (5, 4) for v in variants
    ]
    for cell in written["cells"]:
        assert [len(round_) for round_ in cell["step"]["seconds"]] == [1, 1]
        assert 0 < cell["step"]["seconds_min"] <= cell["step"]["seconds_median"]
        assert cell["memory"]["tensor_peak"] > 4 * 100 * 256 * 4  # weights, gradients, two moments of the first map
    assert written["seed"] == 0
    assert {"versions", "machine", "command", "date"} <= set(written)
    assert all(
        counted[kind]["without_formula"] == [] for counted in written["operations"] for kind in ("step", "predict")
    )
    profiles = json.loads((tmp_path / "profile.json").read_text())["sizes"]
    assert [entry["labels"] for entry in profiles] == [5, 4]
    assert all(0 < line["share"] < 1 for entry in profiles for line in entry["step"] + entry["predict"])
    printed = capsys.readouterr().out
    assert "transformer_decoder" in printed
    assert "aten::addmm" in printed


@pytest.mark.slow
def test_growth__one_axis_after_the_other__both_are_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(growth, "BASE", {"rows": 20, "labels": 4, "width": 8, "layers": 1, "tokens": 1})
    monkeypatch.setattr(growth, "AXES", {"labels": (3,), "tokens": (1, 6)})
    monkeypatch.setattr(growth, "alone", lambda function, *arguments: function(*arguments))
    arguments = ["--steps", "1", "--batch", "4", "--out", str(tmp_path)]
    growth.main([*arguments, "--only", "labels"])
    growth.main([*arguments, "--only", "tokens", "--degree", "2"])
    axes = json.loads((tmp_path / "growth.json").read_text())["axes"]
    assert list(axes) == ["labels", "tokens"]
    (alone,) = axes["labels"]["points"]
    assert alone["seconds_per_epoch"] == pytest.approx(
        alone["seconds_before_first_step"] + 5 * alone["seconds_per_step"]
    )
    assert alone["microseconds_per_row"] == pytest.approx(1e6 * alone["seconds_per_epoch"] / 20)
    one, six = axes["tokens"]["points"]
    assert six["tensor_peak"] != one["tensor_peak"]
    assert axes["tokens"]["exponents"]["tensor_peak"] == pytest.approx(
        math.log(six["tensor_peak"] / one["tensor_peak"]) / math.log(6)
    )
    assert "exponent" in capsys.readouterr().out


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A small table with the names and the split of the real one."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(160, 3)).astype(np.float32)
    labels = (features @ rng.normal(size=(3, 4)) + rng.normal(size=(160, 4)) > 0).astype(np.uint8)
    split = np.repeat(np.array([0, 1, 2], dtype=np.int8), (100, 30, 30))
    np.savez(tmp_path / time_to_accuracy.TABLE, X=features, Y=labels, split=split, coords=rng.normal(size=(160, 2)))
    monkeypatch.setenv("HOTVAE_DATA_DIR", str(tmp_path))
    return tmp_path


def test_read_rows__coordinates_or_not__two_columns_more_or_not(survey):
    rows = time_to_accuracy.read_rows(survey, coordinates=True)
    assert [rows[part][0].shape for part in ("train", "held", "test")] == [(100, 5), (30, 5), (30, 5)]
    assert time_to_accuracy.read_rows(survey, coordinates=False)["test"][0].shape == (30, 3)


@pytest.mark.slow
def test_fit_watched__kept_epoch__curve_holds_the_model_that_is_returned(survey):
    rows = time_to_accuracy.read_rows(survey, coordinates=True)
    settings = {"max_epochs": 4, "encoder_widths": (8,), "dim": 8, "random_state": 0, "n_threads": 1}
    model, curve, total = time_to_accuracy.fit_watched(rows, settings)
    kept = curve[model.history_.best_epoch - 1]
    assert kept["test"] == pytest.approx(log_loss(rows["test"][1], model.predict_proba(rows["test"][0])), abs=1e-9)
    assert kept["validation"] == pytest.approx(
        log_loss(rows["held"][1], model.predict_proba(rows["held"][0])), abs=1e-6
    )
    assert len({entry["test"] for entry in curve}) == len(curve) == 4
    moments = [entry["seconds"] for entry in curve]
    assert 0 < moments[0] < moments[1] < moments[2] < moments[3] <= total + 0.01


def test_time_to_accuracy__tiny__writes_both_answers(survey, capsys):
    time_to_accuracy.main(
        ["--trees", "3", "--out", str(survey), "--set", "max_epochs=3", "encoder_widths=[8]", "dim=8"]
    )
    written = json.loads((survey / "time_to_accuracy.json").read_text())
    assert [fit["min_samples_leaf"] for fit in written["forests"]] == [1, 3, 5, 10]
    assert written["forest"]["validation"] == min(fit["validation"] for fit in written["forests"])
    assert len(written["curve"]) == 3
    reached = written["reached"]
    below = [entry for entry in written["curve"] if entry["test"] <= written["forest"]["test"]]
    assert (reached is None) == (not below)
    assert written["ratio"] == (below[0]["seconds"] / written["forest"]["seconds"] if below else None)
    assert "as good as the forest on test rows" in capsys.readouterr().out
