"""Run the notebooks of docs/tutorials and store what comes out.

    python docs/notebooks.py              all of them
    python docs/notebooks.py lists        some, by name
    python docs/notebooks.py --check ...  only see whether they run; nothing is written

The blocks of from_r.md are run by R where it is installed with reticulate. Each page runs in an empty folder. Times
and versions are not stored, so that the same outputs give the same file.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent / "tutorials"
R_PAGE = FOLDER / "from_r.md"
TIMEOUT = 1800
_R_BLOCK = re.compile(r"^```r\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
_MARK = "-- end of a block --"
# What differs from run to run and machine to machine, and the colours of a terminal.
_PASSING = re.compile(r"(?m)(?<=^trained )(.*) in [\d.]+ s$|^memory +[\d.]+ GB at most\n|\x1b\[[\d;]*m")


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook; CellExecutionError where a cell fails."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        # Kernels warn that they listen on this machine; how they start is not part of a page.
        options = {"extra_arguments": ["--log-level=ERROR"], "resources": {"metadata": {"path": folder}}}
        NotebookClient(book, timeout=TIMEOUT, startup_timeout=600, kernel_name="python3", **options).execute()
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"
        cell.metadata.pop("execution", None)
        cell["outputs"] = tidy(cell["outputs"]) if cell.cell_type == "code" else None
        if cell.cell_type != "code":
            del cell["outputs"]
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return book


def tidy(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Leave away what went to standard error, such as bars of progress, and times; join what came in pieces."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stderr":
            continue
        if kept and output.output_type == kept[-1].output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    for output in kept:
        if output.output_type == "stream":
            output.text = _PASSING.sub(lambda found: found[1] or "", output.text)
    return kept


def run_r(page: str) -> str:
    """Run the blocks of R of a page one after the other, and put what each prints below it."""
    blocks = _R_BLOCK.findall(page)
    script = "\n".join(f"{code}\ncat('{_MARK}\\n')" for code, _ in blocks)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.R").write_text(script, encoding="utf-8")
        environment = os.environ | {"RETICULATE_PYTHON": sys.executable}
        command = ["Rscript", "--vanilla", "page.R"]
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"R ended with {done.returncode}: {done.stderr[-2000:]}")
    printed = iter(done.stdout.split(f"{_MARK}\n"))

    def with_output(found: re.Match[str]) -> str:
        text = next(printed).rstrip()
        return f"```r\n{found[1]}```\n" + (f"\n```text\n{text}\n```\n" if text else "")

    return _R_BLOCK.sub(with_output, page)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="notebooks by name; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args()
    # Commands of a shell in a notebook are those of this environment, one thread each.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["COLUMNS"] = "110"
    names = asked.names or [*sorted(path.stem for path in FOLDER.glob("*.ipynb")), R_PAGE.stem]
    for name in names:
        path = R_PAGE if name == R_PAGE.stem else FOLDER / f"{name}.ipynb"
        if path == R_PAGE and shutil.which("Rscript") is None:
            print(f"{path.name} keeps what it has: there is no Rscript here")
            continue
        print(f"running {path.name}", flush=True)
        book = run_r(path.read_text(encoding="utf-8")) if path == R_PAGE else nbformat.writes(run(path)) + "\n"
        if not asked.check:
            path.write_text(book, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
