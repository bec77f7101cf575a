"""How near the machine's limit training and prediction come, and what other layouts of the model would cost.

    python -m paper.speed.steps
    python -m paper.speed.steps --sizes 100,128,3 303,64,3 --variants reference eager --rounds 10 --profile

One process, one thread. Every round measures, for each size (labels, width, layers), the speed of large float32 matrix
products and then each variant in turn, so that a slow moment of the machine hits all of them alike:

reference            the plain layout of ``paper/speed/reference_layout.py``
transformer_decoder  ``torch.nn.TransformerDecoder`` in the place of our decoder
eager                ours
compiled             ours through ``torch.compile``, its caches empty; at ``--compiled-sizes`` only, as compiling takes
                     minutes, and given up after ``--compile-limit`` seconds. Its memory is not measured

A step is everything ``fit_network`` does from the start of one step to the start of the next: forward
pass of both branches, four loss terms, backward pass, clipping, update, weight average, next batch. A prediction is one
batch through ``hotvae.training.prediction.predict_network``.

Operations are counted in our own network by torch's counter. The CPU's fused attention, which that counter does not
know, is added by the formulas torch has for the same kernel on a GPU. Element-wise work and products with a vector are
not. What is needed (``operations``) is the forward pass, and in a training step two more of them for the gradients,
less those of the inputs; what is executed can be more, where a backward pass computes something again instead of
keeping it. Utilisation is operations needed / (time x speed of matrix products), best time against best speed of the
run: repeating work does not count as being busy, except in ``utilisation_executed``.

Peak memory is the most tensor bytes alive at once from building the network to the end of a third step, that is
weights, optimiser, averages, activations and gradients, in a process of its own for each variant and size. It is read
from the allocator's own log (torch's memory profiler), hence exact, the same in every run, and blind to freed memory
that malloc keeps and to the libraries torch brings. The growth of resident memory is written beside it.

Writes ``speed.json`` and ``profile.json`` (our network: share of time by operation) to ``paper/results``.
"""

import argparse
import ctypes
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from hotvae.config import LossWeights, NetConfig
from hotvae.features import Rows
from hotvae.files import write_text
from hotvae.jobs.settings import parse_assignments
from hotvae.net.model import HotVAE
from hotvae.training.loop import fit_network
from hotvae.training.prediction import owned_randomness, predict_network
from hotvae.training.settings import Training
from paper import RESULTS
from paper.runner import provenance
from paper.speed.reference_layout import ReferenceHotVAE, TransformerNet

VARIANTS = ("reference", "transformer_decoder", "eager", "compiled")
SIZES = ("14,128,3", "100,64,2", "100,128,3", "303,64,3", "983,64,2")
COMPILED_SIZES = ("100,64,2",)
COMPILE_LIMIT = 600.0
GEMM_SIZES = (768, 1024, 1536, 2048)
N_FEATURES = 100
N_WARMUP = 1
BACKEND = "inductor"
TERM_WEIGHTS = LossWeights().by_term()


@dataclass(frozen=True)
class Task:
    """What is computed: size of the network, rows of a batch, density of the label graph."""

    n_labels: int
    dim: int
    n_layers: int
    batch: int = 64
    density: float = 1.0
    seed: int = 0
    settings: tuple[tuple[str, object], ...] = ()

    @property
    def config(self):
        """Our defaults in this size, with the paper's label branch, and what else was set."""
        shape = {"dim": self.dim, "n_layers": self.n_layers, "label_encoder_widths": (256,), "conditional": False}
        return NetConfig(**shape | dict(self.settings))

    def graph(self):
        """Return a symmetric random graph with self-edges, or None for the complete one."""
        if self.density >= 1:
            return None
        drawn = np.triu(np.random.default_rng(self.seed).random((self.n_labels, self.n_labels)) < self.density)
        return torch.from_numpy(drawn | drawn.T | np.eye(self.n_labels, dtype=bool))

    def rows(self, n_rows):
        """Draw a table; a fifth of the labels is present, as in species tables."""
        rng = np.random.default_rng(self.seed)
        features = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
        labels = (rng.random((n_rows, self.n_labels), dtype=np.float32) < 0.2).astype(np.float32)
        return Rows(features, labels)


@dataclass(frozen=True)
class Contender:
    """A variant, ready to train and to predict."""

    network: torch.nn.Module
    loss: object
    predict: object


def build(variant, task):
    """Make the network of a variant with its loss and its prediction."""
    with owned_randomness(task.seed, 0):
        kind = {"reference": ReferenceHotVAE, "transformer_decoder": TransformerNet}.get(variant, HotVAE)
        network = kind(N_FEATURES, task.n_labels, task.config, task.graph())
    parts = (network.loss, network.predict)
    if variant == "compiled":
        parts = (torch.compile(part, dynamic=False, backend=BACKEND) for part in parts)
    return Contender(network, *parts)


def setting_pairs(items):
    """Read ``key=value`` settings of the network into a form that can be a key itself."""
    values = parse_assignments(items).items()
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in values)


# Time -----------------------------------------------------------------------------------------------------


class Enough(Exception):  # noqa: N818  # not an error: it ends a training run of which a few steps are wanted
    """Enough steps were seen."""


class Laps:
    """A loss that notes when it is called, which is once a step; calls ``watch`` with the steps done so far."""

    def __init__(self, loss, n_steps, budget=math.inf, watch=None, clock=time.perf_counter):
        self.loss, self.n_steps, self.budget, self.watch, self.clock = loss, n_steps, budget, watch, clock
        self.starts = []

    def __call__(self, features, labels, base_logits=None):
        """Note the time; the loss is computed unless enough was seen."""
        self.starts.append(self.clock())
        n_done = len(self.starts) - 1
        if self.watch is not None:
            self.watch(n_done)
        if n_done >= self.n_steps or (n_done > N_WARMUP and self.starts[-1] - self.starts[0] > self.budget):
            raise Enough
        return self.loss(features, labels, base_logits)

    @property
    def seconds(self):
        """Seconds of each finished step."""
        return np.diff(self.starts).tolist()


def run_steps(contender, rows, batch, n_steps, budget=math.inf, watch=None, clock=time.perf_counter):
    """Train for some steps by the package's own loop and return the seconds of each."""
    if len(rows) < (n_steps + 1) * batch:
        raise ValueError(f"{n_steps} steps and the start of the next need {(n_steps + 1) * batch} rows")
    network = contender.network
    laps = Laps(contender.loss, n_steps, budget, watch, clock)
    network.loss = laps
    try:
        with suppress(Enough):
            fit_network(network, TERM_WEIGHTS, rows, None, Training(batch_size=batch, max_epochs=1, n_threads=None))
    finally:
        del network.loss
    return laps.seconds


def time_prediction(contender, rows, batch, n_repeats, budget=math.inf):
    """Seconds of each of some predictions of one batch."""
    contender.network.eval()
    seconds = []
    for _ in range(n_repeats):
        started = time.perf_counter()
        predict_network(contender.predict, rows.features[:batch], batch_size=batch)
        seconds.append(time.perf_counter() - started)
        if len(seconds) > N_WARMUP and sum(seconds) > budget:
            break
    return seconds


def gemm_speed(n_repeats=3):
    """Operations per second of the fastest of several large square float32 matrix products."""
    best = 0.0
    for size in GEMM_SIZES:
        left, right, product = (torch.ones(size, size) for _ in range(3))
        for _ in range(n_repeats):
            started = time.perf_counter()
            torch.mm(left, right, out=product)
            best = max(best, 2 * size**3 / (time.perf_counter() - started))
    return best


def break_even(compile_seconds, eager_seconds, compiled_seconds):
    """Return the steps after which compiling has paid for itself; None when it never does."""
    saved = eager_seconds - compiled_seconds
    return None if saved <= 0 else math.ceil(compile_seconds / saved)


class Late(Exception):  # noqa: N818  # not an error: an answer that took too long is an answer
    """Time is over."""


@contextmanager
def time_limit(seconds):
    """Raise :class:`Late` inside the block when its time is over; None and systems without alarms have no limit."""

    def end(number, frame):
        raise Late

    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def first_passes(contender, rows, batch, limit=None):
    """Seconds of the first two steps and of the first two predictions, in which torch.compile works; None if late."""
    started = time.perf_counter()
    try:
        with time_limit(limit):
            first = {"step": sum(run_steps(contender, rows, batch, 2))}
            first["predict"] = sum(time_prediction(contender, rows, batch, 2))
            return first
    except Exception:
        # torch.compile wraps what is raised while it works
        if limit is None or time.perf_counter() - started < limit:
            raise
        return None


# Operations -----------------------------------------------------------------------------------------------


class Products(TorchDispatchMode):
    """Names the operations that look like matrix products, whether or not there is a formula for them."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Take note and go on."""
        if re.search(r"mm|conv|linear|attention|matmul", func.overloadpacket.__name__):
            self.seen.add(func.overloadpacket)
        return func(*args, **(kwargs or {}))


def count_operations(run):
    """Count what ``run()`` executes in products and fused attention, by operation."""

    def attention(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
        return sdpa_flop_count(query_shape, key_shape, value_shape)

    def attention_backward(grad_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
        return sdpa_backward_flop_count(grad_shape, query_shape, key_shape, value_shape)

    formulas = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
    }
    # entered first, the names are taken last: of what torch's counter has already taken apart
    with Products() as products, FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        run()
    known = set(flop_registry) | set(formulas)
    return {
        "executed": counter.get_total_flops(),
        "by_operation": {str(name): n for name, n in counter.get_flop_counts().get("Global", {}).items()},
        "without_formula": sorted(str(name) for name in products.seen - known),
    }


def count_task(task):
    """Count the operations of a training step and of a prediction of ours: those executed and those needed."""
    contender, rows = build("eager", task), task.rows(2 * task.batch)
    step = count_operations(lambda: run_steps(contender, rows, task.batch, 1))
    contender.network.requires_grad_(False)  # torch's counter stumbles over weights without a gradient graph
    predict = count_operations(lambda: time_prediction(contender, rows, task.batch, 1))
    batch = [torch.from_numpy(table[: task.batch]) for table in (rows.features, rows.labels)]
    forward = count_operations(lambda: contender.loss(*batch))["executed"]
    first_maps = (
        next(encoder.parameters()) for encoder in (contender.network.feature_encoder, contender.network.label_encoder)
    )
    gradients_of_inputs = sum(2 * task.batch * weight.numel() for weight in first_maps)
    return {
        "step": step | {"needed": 3 * forward - gradients_of_inputs},
        "predict": predict | {"needed": predict["executed"]},
    }


# Memory ---------------------------------------------------------------------------------------------------


def peak_bytes(run):
    """Most tensor bytes alive at once inside ``run()``, above what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as log:
        run()
    events = [event for event in log.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(max(np.cumsum(changes), default=0))


def resident_bytes(field):
    """Read ``VmRSS`` (now) or ``VmHWM`` (most so far) of this process; None where Linux does not tell."""
    with suppress(OSError):
        found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024
    return None


def resident_growth(run):
    """Growth of resident memory in ``run()``, which must be the first big thing in its process."""
    # getrusage would not do: its high-water mark is inherited from the process that started this one
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes("VmRSS")
    run()
    return None if before is None else resident_bytes("VmHWM") - before


def available_bytes():
    """Memory to be had without pushing others out; None where Linux does not tell."""
    with suppress(OSError):
        return int(re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())[1]) * 1024
    return None


def load_code():
    """Train and predict once on next to nothing: what torch loads on first use is no part of a step's memory."""
    tiny = Task(2, 4, 1, batch=2)
    contender, rows = build("eager", tiny), tiny.rows(4)
    peak_bytes(lambda: run_steps(contender, rows, tiny.batch, 1))
    time_prediction(contender, rows, tiny.batch, 1)


def measure_memory(variant, task, n_steps=3):
    """Peak memory of a variant and its training for some steps; call it in a fresh process."""
    load_code()
    contender, rows = build(variant, task), task.rows((n_steps + 1) * task.batch)

    def run():
        run_steps(contender, rows, task.batch, n_steps)

    growth = resident_growth(run)  # what torch.compile takes while it works included, which is over by now
    contender.network.zero_grad(set_to_none=True)
    weights = sum(tensor.nbytes for tensor in contender.network.state_dict().values())
    return {"fits": True, "resident_growth": growth, "tensor_peak": weights + peak_bytes(run)}


def alone(function, *arguments, share=0.8):
    """Call a function in a fresh process that may use ``share`` of the free memory; beyond it, ``fits`` is False."""
    free = available_bytes()
    limit = None if free is None else int(share * free)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_limited, limit, function, arguments).result()
        except BrokenProcessPool:
            return {"fits": False, "reason": "its process was ended"}


def _limited(limit, function, arguments):
    torch.set_num_threads(1)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with _fresh_caches():
        try:
            return function(*arguments)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
                raise
            return {"fits": False, "reason": "does not fit into memory", "limit": limit}


@contextmanager
def _fresh_caches():
    """Let torch.compile begin with nothing, as on a user's first day."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        before = {name: os.environ.get(name) for name in fresh}
        os.environ |= fresh
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


# Profile --------------------------------------------------------------------------------------------------


def profile_task(task, n_steps=3, n_shown=15):
    """Share of CPU time by operation, in training steps and in predictions of ours."""
    contender, rows = build("eager", task), task.rows((n_steps + 3) * task.batch)
    log = profile(activities=[ProfilerActivity.CPU])

    def watch(n_done):
        if n_done == 1:
            log.start()
        if n_done == n_steps + 1:
            log.stop()

    run_steps(contender, rows, task.batch, n_steps + 1, watch=watch)
    step = top_operations(log, n_steps, n_shown)
    time_prediction(contender, rows, task.batch, 1)
    with profile(activities=[ProfilerActivity.CPU]) as log:
        time_prediction(contender, rows, task.batch, n_steps)
    return {"step": step, "predict": top_operations(log, n_steps, n_shown)}


def top_operations(log, n_repeats, n_shown):
    """List the operations that took most time by themselves."""
    events = sorted(log.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return [
        {
            "operation": event.key,
            "share": event.self_cpu_time_total / total,
            "milliseconds": event.self_cpu_time_total / 1000 / n_repeats,
            "calls": event.count / n_repeats,
        }
        for event in events[:n_shown]
    ]


# The whole ------------------------------------------------------------------------------------------------


def measure_rounds(tasks, fitting, n_rounds, n_steps, budget, compile_limit=COMPILE_LIMIT):
    """Time every variant of every task in turn, several rounds; one that compiles for too long is left out.

    Returns
    -------
    times : dict
        Seconds of steps and predictions by (task, variant), a list for each round; ``first`` are the sums of the
        first two steps and of the first two predictions, in which torch.compile works.
    speeds : list of float
        Operations per second of matrix products, measured before each task of each round.
    share : float
        CPU time / time. With one thread, less than 1 means that others had the core.
    """
    contenders = {(task, variant): build(variant, task) for task in tasks for variant in fitting[task]}
    tables = {task: task.rows((n_steps + N_WARMUP + 2) * task.batch) for task in tasks}
    times = {}
    for (task, variant), contender in contenders.items():
        limit = compile_limit if variant == "compiled" else None
        first = first_passes(contender, tables[task], task.batch, limit)
        if first is not None:
            times[task, variant] = {"first": first, "step": [], "predict": []}
        print(f"ready  {label(task)}  {variant}", file=sys.stderr, flush=True)
    speeds = []
    busy, started = time.process_time(), time.perf_counter()
    for round_ in range(n_rounds):
        for task in tasks:
            speeds.append(gemm_speed())
            for variant in (name for name in fitting[task] if (task, name) in times):
                noted, turn = times[task, variant], (contenders[task, variant], tables[task], task.batch)
                noted["step"].append(run_steps(*turn, n_steps + N_WARMUP, budget)[N_WARMUP:])
                noted["predict"].append(time_prediction(*turn, n_steps + N_WARMUP, budget)[N_WARMUP:])
            print(f"round {round_ + 1}  {label(task)}", file=sys.stderr, flush=True)
    return times, speeds, (time.process_time() - busy) / (time.perf_counter() - started)


def label(task):
    """Name a size."""
    return f"{task.n_labels} labels, width {task.dim}, {task.n_layers} layers"


def summarise(task, variant, times, speeds, operations, memory):
    """Bring what was measured for one variant of one size to the numbers that are reported."""
    own = times[task, variant]
    best_speed, median_speed = max(speeds), float(np.median(speeds))
    cell = {"labels": task.n_labels, "width": task.dim, "layers": task.n_layers, "variant": variant}
    for kind in ("step", "predict"):
        flat = [value for round_ in own[kind] for value in round_]
        numbers = {"seconds_min": min(flat), "seconds_median": float(np.median(flat)), "seconds": own[kind]}
        if variant in ("eager", "compiled"):
            needed, executed = operations[kind]["needed"], operations[kind]["executed"]
            numbers |= {
                "operations": needed,
                "utilisation": needed / (numbers["seconds_min"] * best_speed),
                "utilisation_median": needed / (numbers["seconds_median"] * median_speed),
                "utilisation_executed": executed / (numbers["seconds_min"] * best_speed),
            }
        if (task, "reference") in times:
            theirs = [value for round_ in times[task, "reference"][kind] for value in round_]
            numbers["speedup"] = min(theirs) / numbers["seconds_min"]
            numbers["speedup_median"] = float(np.median(theirs)) / numbers["seconds_median"]
        if variant == "compiled":
            numbers["compile_seconds"] = max(0.0, own["first"][kind] - 2 * numbers["seconds_median"])
            if (task, "eager") in times:
                eager = float(np.median([value for round_ in times[task, "eager"][kind] for value in round_]))
                numbers["break_even"] = break_even(numbers["compile_seconds"], eager, numbers["seconds_median"])
        cell[kind] = numbers
    cell["memory"] = dict(memory.get((task, variant), {}))
    reference = memory.get((task, "reference"), {})
    if cell["memory"].get("fits") and reference.get("fits"):
        cell["memory"]["share_of_reference"] = cell["memory"]["tensor_peak"] / reference["tensor_peak"]
    return cell


COLUMNS = (  # title, width, format, factor, where the number stands
    ("labels", 6, "d", 1, ("labels",)),
    ("width", 5, "d", 1, ("width",)),
    ("layers", 6, "d", 1, ("layers",)),
    ("variant", 20, "s", None, ("variant",)),
    ("step ms", 9, ".1f", 1e3, ("step", "seconds_min")),
    ("median", 9, ".1f", 1e3, ("step", "seconds_median")),
    ("GFLOP", 7, ".2f", 1e-9, ("step", "operations")),
    ("use", 4, ".0%", 1, ("step", "utilisation")),
    ("exec", 4, ".0%", 1, ("step", "utilisation_executed")),
    ("x ref", 6, ".2f", 1, ("step", "speedup")),
    ("peak MB", 8, ".0f", 1e-6, ("memory", "tensor_peak")),
    ("of ref", 6, ".2f", 1, ("memory", "share_of_reference")),
    ("predict ms", 10, ".1f", 1e3, ("predict", "seconds_min")),
    ("median", 9, ".1f", 1e3, ("predict", "seconds_median")),
    ("GFLOP", 7, ".2f", 1e-9, ("predict", "operations")),
    ("use", 4, ".0%", 1, ("predict", "utilisation")),
    ("x ref", 6, ".2f", 1, ("predict", "speedup")),
)


def print_table(cells):
    """Print a line for each variant of each size, and what compiling cost."""
    print(" ".join(f"{title:>{width}}" for title, width, *_ in COLUMNS))
    for cell in cells:
        shown = []
        for _, width, form, factor, path in COLUMNS:
            value = cell
            for name in path:
                value = value.get(name, {})
            shown.append(f"{'-':>{width}}" if value == {} else f"{value * factor if factor else value:>{width}{form}}")
        print(" ".join(shown) + ("" if "step" in cell else f"  {cell['memory']['reason']}"))
    for cell in cells:
        if cell["variant"] == "compiled" and "step" in cell:
            for kind in ("step", "predict"):
                numbers = cell[kind]
                pays = f"pays after {numbers['break_even']}" if numbers.get("break_even") else "never pays"
                name = f"{cell['labels']}, {cell['width']}, {cell['layers']}: {kind}"
                print(f"compiling {name} took {numbers['compile_seconds']:.1f} s, {pays}")


def print_profile(profiles):
    """Print where the time goes."""
    for entry in profiles:
        for kind in ("step", "predict"):
            print(f"\n{entry['labels']} labels, width {entry['width']}, {entry['layers']} layers: {kind}")
            for line in entry[kind]:
                print(
                    f"  {line['share']:6.1%} {line['milliseconds']:9.2f} ms {line['calls']:7.1f} x  {line['operation']}"
                )


def main(argv=None):
    """Measure what is asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="LABELS,WIDTH,LAYERS")
    parser.add_argument("--compiled-sizes", nargs="*", default=COMPILED_SIZES, metavar="LABELS,WIDTH,LAYERS")
    parser.add_argument("--compile-limit", type=float, default=COMPILE_LIMIT, help="seconds compiling may take")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="steps and predictions of each variant in a round")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds after which a turn ends with fewer steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--density", type=float, default=1.0, help="share of edges in the label graph; 1 is complete")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory-share", type=float, default=0.8, help="share of the free memory a variant may use")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--name", default="speed", help="results go to <name>.json, and a profile if it is speed")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    shared = {name: getattr(options, name) for name in ("batch", "density", "seed")}
    shared["settings"] = setting_pairs(options.set)
    tasks = [Task(*(int(part) for part in size.split(",")), **shared) for size in options.sizes]
    chosen = {
        task: [v for v in VARIANTS if v in options.variants and (v != "compiled" or size in options.compiled_sizes)]
        for task, size in zip(tasks, options.sizes, strict=True)
    }
    memory = {}
    if not options.no_memory:
        for task in tasks:
            for variant in (name for name in chosen[task] if name != "compiled"):
                memory[task, variant] = alone(measure_memory, variant, task, share=options.memory_share)
                print(f"memory  {label(task)}  {variant}  {memory[task, variant]}", file=sys.stderr, flush=True)
    fitting = {task: [v for v in chosen[task] if memory.get((task, v), {}).get("fits", True)] for task in tasks}
    operations = {task: count_task(task) for task in tasks}
    profiles = [
        {"labels": t.n_labels, "width": t.dim, "layers": t.n_layers, **profile_task(t)}
        for t in tasks
        if options.profile or options.name == "speed"
    ]
    with _fresh_caches():
        limits = (options.rounds, options.steps, options.budget, options.compile_limit)
        times, speeds, share = measure_rounds(tasks, fitting, *limits)
    late = {"fits": False, "reason": f"compiling took longer than {options.compile_limit:.0f} s"}
    cells = [
        summarise(task, variant, times, speeds, operations[task], memory)
        if (task, variant) in times
        else {"labels": task.n_labels, "width": task.dim, "layers": task.n_layers, "variant": variant}
        | {"memory": memory.get((task, variant), late)}
        for task in tasks
        for variant in chosen[task]
    ]
    content = provenance(options.seed) | {
        "batch": options.batch,
        "settings": {name: value for name, value in asdict(tasks[0].config).items() if name not in ("dim", "n_layers")},
        "rounds": options.rounds,
        "share_of_core": share,
        "matrix_products": {"best": max(speeds), "median": float(np.median(speeds)), "operations_per_second": speeds},
        "operations": [{"size": asdict(task), **counted} for task, counted in operations.items()],
        "cells": cells,
    }
    write_text(options.out / f"{options.name}.json", json.dumps(content, indent=1) + "\n")
    if options.name == "speed":
        notes = provenance(options.seed) | {"sizes": profiles}
        write_text(options.out / "profile.json", json.dumps(notes, indent=1) + "\n")
    print(f"matrix products: {max(speeds) / 1e9:.1f} GFLOP/s at best; "
          f"this process had {share:.0%} of its core")  # fmt: skip
    print_table(cells)
    unseen = sorted({name for c in operations.values() for kind in c.values() for name in kind["without_formula"]})
    if unseen:
        print(f"not counted, for want of a formula: {', '.join(unseen)}")
    if options.profile:
        print_profile(profiles)


if __name__ == "__main__":
    main()
