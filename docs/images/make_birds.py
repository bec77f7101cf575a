"""Draw the README's map, before and after some birds are ticked: python docs/images/make_birds.py hotvae-demo."""

import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from hotvae import load_model
from hotvae.report.plots import draw_places

BIRD, SEEN = "Grasshopper Sparrow", ("Upland Sandpiper", "Dickcissel", "Savannah Sparrow")
WHERE = ("longitude", "latitude")

demo = Path(sys.argv[1])
model = load_model(demo / "model")
routes = pd.read_csv(demo / "routes.csv")
environment = routes[list(model.feature_names_in_)]
column = list(model.label_names_).index(BIRD)
before = model.predict_proba(environment)[:, column].astype(float)
after = model.predict_proba(environment, given=dict.fromkeys(SEEN, 1))[:, column].astype(float)

figure = Figure(figsize=(11.5, 2.7), layout="constrained", facecolor="white")
panels = figure.subplots(1, 3)
scale = {"low": 0.0, "high": 1.0}
draw_places(figure, panels[0], routes, before, WHERE, title=f"{BIRD}: nothing ticked", **scale)
draw_places(figure, panels[1], routes, after, WHERE, title="three grassland birds ticked", **scale)
draw_places(figure, panels[2], routes, after - before, WHERE, title="what the ticks changed", palette="magma")
for axes in panels:
    axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=9, fontweight="bold")
    axes.set_xlabel("")
    axes.set_ylabel("")
figure.savefig(Path(__file__).parent / "ticked.png", dpi=110)
print(f"mean over {len(routes)} routes: {before.mean():.3f} before, {after.mean():.3f} after")
