"""The paper's tables and figures, and what else is measured for the pages of ``docs``; not installed with the package.

From top to bottom of the dataflow: `experiments` declares cells, `runner` gives each one to a process of its own
(`worker`, which calls `cells`), `store` keeps what comes back, `paired` compares models row by row, `facts` knows what
others printed, `pages` and `communities` write the pages. Pages with results of their own have scripts of their own;
those about time and memory are in `speed`.
"""

from pathlib import Path

RESULTS = Path(__file__).with_name("results")
DOCS = Path(__file__).parents[1] / "docs"
