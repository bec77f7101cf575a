"""The paper's tables and figures as declared experiments: cells, runner, stored results, rendered pages.

From top to bottom of the dataflow: `experiments` declares cells, `runner` gives each one to a process of its own
(`worker`, which calls `cells`), `store` keeps what comes back, `paired` compares models row by row, `facts` knows what
others printed, `tables` and `communities` write the pages.
"""
