"""Write the tables of docs/performance.md from the stored results: python -m benchmarks.performance_page."""

import json
from pathlib import Path

from benchmarks.speed import RESULTS

from hotvae.report import write_text

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
GOALS = {(100, 128, 3): (0.45, 0.55, 4.0), (303, 64, 3): (0.45, 0.55, 6.0)}
NAMES = {
    "reference": "reference layout",
    "transformer_decoder": "`nn.TransformerDecoder`",
    "eager": "hotvae",
    "compiled": "hotvae, compiled",
}


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


def tables():
    """Return every table of the page by its marker."""
    speed = json.loads((RESULTS / "speed.json").read_text())
    profile = json.loads((RESULTS / "profile.json").read_text())
    return {
        "speed": f"{reading(speed)}\n\n{speed_table(speed)}",
        "goals": goal_table(speed),
        "profile": profile_table(profile),
    }


def render(page):
    """Return the page with its tables written anew."""
    for name, table in tables().items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        head, _, rest = page.partition(begin)
        page = head + begin + "\n" + table + "\n\n" + end + rest.partition(end)[2]
    return page


if __name__ == "__main__":
    write_text(PAGE, render(PAGE.read_text()))
    print(f"wrote {PAGE.name}")
