"""Write the tables of docs/performance.md from the stored results: python -m paper.speed.performance_page."""

import json

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.summaries import replace_marked

PAGE = DOCS / "performance.md"
GOALS = {(100, 128, 3): (0.45, 0.55, 4.0), (303, 64, 3): (0.45, 0.55, 6.0)}
NAMES = {
    "reference": "reference layout",
    "transformer_decoder": "`nn.TransformerDecoder`",
    "eager": "hotvae",
    "compiled": "hotvae, compiled",
}
THREADS = {"one": "one thread", "all": "all cores", "all, short": "all cores, short spin"}


def speed_table(content):
    """Return times, utilisation, ratio to the reference and memory of every size and variant."""
    lines = [
        "| labels, width, layers | | step ms | use | × reference | peak MB | of reference | predict ms | use "
        "| × reference |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cell in content["cells"]:
        size = f"{cell['labels']}, {cell['width']}, {cell['layers']}"
        memory = cell.get("memory") or {}
        if "step" not in cell:  # too large, or too long to compile
            lines.append(f"| {size} | {NAMES[cell['variant']]} | {memory['reason']} | | | | | | | |")
            continue
        parts = []
        for kind in ("step", "predict"):
            found = cell[kind]
            use = found.get("utilisation")
            ratio = found.get("speedup")
            parts.append(
                (
                    f"{1000 * found['seconds_min']:.0f}",
                    "" if use is None else f"{use:.0%}",
                    "" if ratio is None else f"{ratio:.2f}",
                )
            )
        peak = f"{memory['tensor_peak'] / 1e6:.0f}" if "tensor_peak" in memory else ""
        share = f"{memory['share_of_reference']:.2f}" if memory.get("share_of_reference") is not None else ""
        step, predict = parts
        cells = [size, NAMES[cell["variant"]], *step, peak, share, *predict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compile_words(content):
    """Say what compiling cost and when it pays."""
    said = []
    for cell in content["cells"]:
        if cell["variant"] != "compiled":
            continue
        size = f"({cell['labels']}, {cell['width']}, {cell['layers']})"
        if "step" not in cell:
            said.append(f"`torch.compile` at {size}: {cell['memory']['reason']}.")
            continue
        for kind, name in (("step", "training step"), ("predict", "prediction")):
            numbers = cell[kind]
            after = numbers.get("break_even")
            pays = f"pays after {after:,} of them" if after else "never pays: what comes out is no quicker"
            said.append(f"Compiling the {name} at {size} took {numbers['compile_seconds']:.0f} s and {pays}.")
    return " ".join(said)


def goal_table(content):
    """Set what was reached beside what was asked for."""
    lines = ["| | asked | reached | |", "|---|---:|---:|---|"]
    for cell in content["cells"]:
        goal = GOALS.get((cell["labels"], cell["width"], cell["layers"]))
        if goal is None or cell["variant"] != "eager":
            continue
        size = f"{cell['labels']} labels, width {cell['width']}, {cell['layers']} layers"
        rows = (
            ("use of the core, training step", goal[0], cell["step"]["utilisation"], "{:.0%}", True),
            ("use of the core, prediction", goal[1], cell["predict"]["utilisation"], "{:.0%}", True),
            ("times as fast as the reference, step", goal[2], cell["step"]["speedup"], "{:.1f}", True),
            ("share of the reference's peak memory", 1 / 3, cell["memory"]["share_of_reference"], "{:.2f}", False),
        )
        for what, asked, found, form, more in rows:
            met = found >= asked if more else found <= asked
            answer = "reached" if met else "short"
            lines.append(f"| {size}: {what} | {form.format(asked)} | {form.format(found)} | {answer} |")
    return "\n".join(lines)


def profile_table(content, size=(303, 64, 3), n=8):
    """Return where the time of one size goes."""
    chosen = next(s for s in content["sizes"] if (s["labels"], s["width"], s["layers"]) == size)
    lines = ["| training step | share | prediction | share |", "|---|---:|---|---:|"]
    for step, predict in list(zip(chosen["step"], chosen["predict"], strict=False))[:n]:
        cells = [f"`{part['operation']}` | {part['share']:.0%}" for part in (step, predict)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def reading(content):
    """Say in words what machine and run the numbers are of."""
    best, machine = content["matrix_products"]["best"] / 1e9, content["machine"]
    return (
        f"One run, {content['date'][:10]}, {machine['cpu']} ({machine['instructions']}), one thread, "
        f"torch {content['versions']['torch']}; batches of {content['batch']} rows; "
        f"matrix products {best:.0f} GFLOP/s at best; the process had {content['share_of_core']:.0%} of its core. "
        f"Command: `{content['command']}`."
    )


def command_of(content):
    """Say when a result was made and how to repeat it."""
    return f"{content['date'][:10]}. Command: `{content['command']}`."


def table(head, rows):
    """Return a table whose first column is text and whose others are numbers."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def thread_table(content):
    """Return time of a step by number of threads."""
    rows = [
        (
            f"{cell['size'].replace(',', ', ')}: {THREADS[cell['setting']]}",
            f"{1e3 * cell['seconds_median']:.0f}",
            f"{1e3 * cell['cpu_seconds']:.0f}",
            f"{cell['speedup']:.2f}",
        )
        for cell in content["cells"]
    ]
    low, high = min(content["load"]), max(content["load"])
    busy = f"{content['busy']} of them our own" if content["busy"] else "none of them our own"
    said = (
        f"{content['machine']['cores']} cores; {low:.1f} to {high:.1f} processes wanted one meanwhile, {busy}. "
        f"Medians of {content['rounds']} rounds in turn, {command_of(content)}"
    )
    return f"{said}\n\n{table(('labels, width, layers', 'ms a step', 'ms of CPU', '× one thread'), rows)}"


def growth_tables(content):
    """Return time and memory along each axis, with the fitted exponents below."""
    parts = []
    for axis, measured in content["axes"].items():
        rows = []
        for point in measured["points"]:
            if not point["fits"]:
                rows.append((f"{point['value']:,}", point["reason"], "", ""))
                continue
            resident = point["resident_growth"]
            rows.append(
                (
                    f"{point['value']:,}",
                    f"{point['seconds_per_epoch']:.1f}",
                    "" if resident is None else f"{resident / 1e6:.0f}",
                    f"{point['tensor_peak'] / 1e6:.0f}",
                )
            )
        found = measured["exponents"]
        names = ("seconds_per_epoch", "resident_growth", "tensor_peak")
        rows.append(
            (
                "**exponent**",
                *("" if found[name] is None else f"**{round(found[name], 2) + 0.0:.2f}**" for name in names),
            )
        )
        head = (axis, "CPU s an epoch", "resident MB", "tensors MB")
        parts.append(f"{table(head, rows)}\n\n{command_of(measured)}")
    base = ", ".join(f"{value:,} {name}" for name, value in content["base"].items())
    return f"All else at {base}; batches of {content['batch']}.\n\n" + "\n\n".join(parts)


def accuracy_table(contents):
    """Set HOT-VAE's time to the accuracy of a forest beside the forest's own."""
    rows = []
    for content in contents:
        forest, kept = content["forest"], content["kept"]
        for what, key in (("test", "reached"), ("validation", "reached_on_validation_rows")):
            hit = content[key]
            goal = forest["test" if what == "test" else "validation"]
            rows.append(
                (
                    f"{'with' if content['coordinates'] else 'without'} coordinates, {what} rows",
                    f"{goal:.4f}",
                    f"{forest['seconds']:.0f}",
                    "never" if hit is None else f"{hit['epoch']}",
                    "" if hit is None else f"{hit['seconds']:.0f}",
                    "" if hit is None else f"{hit['ratio']:.2f}",
                    f"{kept[what]:.4f}",
                )
            )
    head = ("bbs_like_ebird100", "forest's log loss", "forest s", "epoch", "HOT-VAE s", "ratio", "HOT-VAE in the end")
    commands = " and ".join(f"`{content['command']}`" for content in contents)
    return f"{table(head, rows)}\n\n{contents[0]['date'][:10]}, CPU seconds. Commands: {commands}."


def crossover_table(part):
    """Return cost of a row on each path by number of labels."""
    paths = ("exact", "neighbours")
    found = {(point["path"], point["labels"]): point for point in part["points"] if point["fits"]}
    rows = []
    for n_labels in sorted({labels for _, labels in found}):
        here = [found.get((path, n_labels)) for path in paths]
        times = ["" if point is None else f"{1e3 * point['seconds_per_row']:.2f}" for point in here]
        peaks = ["" if point is None else f"{point['tensor_peak'] / 1e6:.0f}" for point in here]
        rows.append((f"{n_labels:,}", *times, *peaks))
    fitted = [
        f"**{part['exponents'][path][name]:.2f}**" for name in ("seconds_per_row", "tensor_peak") for path in paths
    ]
    rows.append(("**exponent**", *fitted))
    head = ("labels", *(f"{path}, ms a row" for path in paths), *(f"{path}, MB" for path in paths))
    said = []
    for path, at in part["crossings"].items():
        where = "nowhere in this range" if at is None else f"from about {at:,.0f} labels"
        said.append(f"{path} are quicker than the exact path {where}")
    return (
        f"{table(head, rows)}\n\n{'; '.join(said).capitalize()}. Width {part['width']}, {part['layers']} layer, "
        f"batches of {part['batch']} rows, {part['degree']} neighbours; {command_of(part)}"
    )


def epoch_table(part):
    """Return memory and time of an epoch on each path."""
    rows = [
        (
            point["path"],
            f"{point['peak'] / 1e9:.2f}" if point["fits"] else point["reason"],
            f"{point['epoch_seconds']:.0f}" if point["fits"] else "",
            "" if not point["fits"] else "a whole epoch" if point["steps"] is None else f"{point['steps']} steps",
        )
        for point in part["points"]
    ]
    head = (f"{part['labels']:,} labels × {part['rows']:,} rows", "peak GB", "CPU s an epoch", "measured on")
    return (
        f"{table(head, rows)}\n\nWidth {part['width']}, {part['layers']} layers, batches of {part['batch']}; "
        f"{command_of(part)}"
    )


def cost_table(part):
    """Return accuracy, time and memory of each path on the same rows."""
    rows = [
        (
            point["path"],
            f"{point['log_loss']:.5f}",
            f"{point['micro_f1']:.4f}",
            f"{point['macro_f1']:.4f}",
            f"{point['best_epoch']}",
            f"{point['seconds']:.0f}",
            f"{point['peak'] / 1e9:.2f}",
        )
        for point in part["points"]
        if point["fits"]
    ]
    sizes, settings = part["rows"], part["settings"]
    n_messages = settings["max_epochs"] - settings["direct_epochs"]
    head = (f"{part['labels']:,} labels", "log loss", "miF1", "maF1", "kept epoch", "CPU s", "peak GB")
    return (
        f"{table(head, rows)}\n\n{sizes['train']:,} training rows, {sizes['test']:,} test rows; "
        f"{settings['max_epochs']} epochs, {n_messages} of them with messages; "
        f"one seed, {command_of(part)}"
    )


def stream_table(content):
    """Return memory and speed of a long prediction that was killed and resumed."""
    runs = content["runs"]
    names = {
        "short": f"{content['short_rows']:,} rows",
        "killed": f"{content['rows']:,} rows, killed",
        "resumed": f"{content['rows']:,} rows, resumed",
    }
    rows = [
        (names[name], f"{run['peak'] / 1e6:.0f}", f"{run['cpu_seconds']:.0f}" if "cpu_seconds" in run else "")
        for name, run in runs.items()
    ]
    resident = [told["resident"] / 1e6 for told in runs["killed"]["told"] if told.get("resident")]
    held = ""
    if len(resident) > 1:
        half = len(resident) // 2
        held = (
            f"Resident memory of the process that was killed, after each of its pieces: {min(resident[:half]):.0f} to "
            f"{max(resident[:half]):.0f} MB in the first half of them, {min(resident[half:]):.0f} to "
            f"{max(resident[half:]):.0f} in the second. "
        )
    shape = content["settings"]
    whole = "is whole" if content["whole"] else "is not whole"
    head = (f"× {content['labels']} labels", "peak MB", "CPU s")
    return (
        f"{table(head, rows)}\n\nThe second process found {content['pieces_found_after_the_kill']} of "
        f"{content['pieces']} pieces and did the rest at {content['rows_per_cpu_second']:,.0f} rows a CPU second, "
        f"joining them all included. The result {whole}; rows predicted in other company differ from it by at most "
        f"{content['largest_difference']:.0e}. {held}"
        f"Width {shape['dim']}, {shape['n_layers']} layer, pieces of {content['rows_at_once']:,} rows; "
        f"{command_of(content)}"
    )


def scale_goals(accuracy, growth, labels):
    """Set what was reached in time to accuracy and growth beside what was asked for."""
    rows = []
    for content in accuracy:
        name = f"time to the accuracy of trees, {'with' if content['coordinates'] else 'without'} coordinates"
        ratio = content["ratio"]
        met = ratio is not None and ratio <= 4
        rows.append((name, "≤ 4", "never" if ratio is None else f"{ratio:.2f}", "reached" if met else "short"))
    for axis, most in (("rows", 1.0), ("labels", 2.0)):
        found = growth["axes"][axis]["exponents"]["seconds_per_epoch"]
        answer = "reached" if found <= most + 0.05 else "short"
        rows.append((f"growth of time with {axis}: exponent", f"≤ {most:g}", f"{found:.2f}", answer))
    exact = next(point for point in labels["epoch"]["points"] if point["path"] == "exact")
    fits = exact["fits"] and exact["peak"] < 4e9
    name = f"{labels['epoch']['labels']:,} labels × {labels['epoch']['rows']:,} rows, exact: GB"
    rows.append((name, "< 4", f"{exact['peak'] / 1e9:.2f}" if exact["fits"] else "", "reached" if fits else "short"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def read(name):
    """Read a result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def speed_part(content):
    """Return a run of the speed benchmark in words and numbers."""
    return f"{reading(content)}\n\n{speed_table(content)}\n\n{compile_words(content)}".rstrip()


def goals_part(speed, rest):
    """Set what was reached beside what was asked for."""
    return f"{goal_table(speed)}\n{rest}".rstrip()


def tables():
    """Return every table of the page by its marker."""
    speed, growth, labels = read("speed"), read("growth"), read("many_labels")["parts"]
    runs = ("time_to_accuracy", "time_to_accuracy_no_coordinates")
    accuracy = [read(name) for name in runs if (RESULTS / f"{name}.json").exists()]
    return {
        "speed": speed_part(speed),
        "goals": goals_part(speed, scale_goals(accuracy, growth, labels)),
        "other machine": f"{reading(read('speed_xeon'))}\n\n{goals_part(read('speed_xeon'), '')}",
        "profile": profile_table(read("profile")),
        "accuracy": accuracy_table(accuracy),
        "growth": growth_tables(growth),
        "crossover": crossover_table(labels["crossover"]),
        "epoch": epoch_table(labels["epoch"]),
        "delicious": cost_table(labels["delicious"]),
        "synthetic": cost_table(labels["synthetic"]),
        "stream": stream_table(read("stream")),
        "threads": thread_table(read("threads")),
    }


def render(page):
    """Return the page with its tables written anew."""
    for name, table in tables().items():
        page = replace_marked(page, name, f"\n{table}\n\n")
    return page


if __name__ == "__main__":
    write_text(PAGE, render(PAGE.read_text()))
    print(f"wrote {PAGE.name}")
