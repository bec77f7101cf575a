"""A table of a virtual region, and options that train a model on it in a second."""

import pandas as pd

from hotvae import virtual_region

SMALL = ["--set", "encoder_widths=[16]", "--dim", "8", "--epochs", "2", "--set", "learning_rate=0.01"]
# A network of two epochs, for what is not about how a recipe is found.
QUICK = ["--recipe", "network", "--split", "stratified", *SMALL]
PARAMETERS = {"encoder_widths": (16,), "dim": 8, "max_epochs": 2, "learning_rate": 0.01, "random_state": 0}
ROLES = ["--labels", "sp_*", "--id-column", "site", "--coordinates", "easting_km,northing_km"]


def region_table(n_sites=120, seed=0):
    data = virtual_region(n_sites, 6, random_state=seed).dataset
    table = pd.DataFrame(data.features, columns=data.feature_names)
    table.insert(0, "site", [f"s{i:03d}" for i in range(n_sites)])
    table[list(data.coordinate_names)] = data.coordinates
    for name, column in zip(data.label_names, data.labels.T, strict=True):
        table[f"sp_{name}"] = column.astype(int)
    return table


LABELS = [name for name in region_table(20) if name.startswith("sp_")]
