"""A saved model described: what it is, how it was trained and on what."""

from pathlib import Path
from typing import Any

from torch import Tensor

from hotvae.baselines.neighbours import NEIGHBOURS
from hotvae.checkpoint import load_folder
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.registry import model_of_folder
from hotvae.jobs.table_needs import TableNeeds, model_card


def describe_model(folder: str | Path) -> dict[str, Any]:
    """Gather what a model folder says of its model.

    Parameters
    ----------
    folder : path
        Folder of a trained model.

    Returns
    -------
    dict
        Kind, versions, number of parameters, labels, features and their kinds, settings, epochs, thresholds, the recipe
        it found (``recipe``, in words ``recipe_lines``; None for a model that looks for none), training rows that it
        remembers (``neighbours``, or None) and what training noted of its table (``training``).

    Raises
    ------
    ModelError
        A folder that is missing, damaged or foreign.
    """
    stored, tensors = load_folder(folder)
    return describe_loaded(str(folder), model_of_folder(folder, stored, tensors), stored, tensors)


def describe_loaded(
    name: str, model: LabelClassifier, stored: dict[str, Any], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Gather what :func:`describe_model` returns, of a folder that has been read already."""
    history, neighbours = getattr(model, "history_", None), getattr(model, "neighbours_", None)
    recipe = getattr(model, "recipe_", None)
    needs = TableNeeds.of_model(model)
    return {
        "model": name,
        "kind": stored["kind"],
        "format_version": stored["format_version"],
        "hotvae_version": stored.get("hotvae_version", "unknown"),
        "torch_version": stored.get("torch_version", "unknown"),
        "n_parameters": sum(
            weights.numel()
            for name, weights in tensors.items()
            if weights.is_floating_point() and not name.startswith(NEIGHBOURS)
        ),
        "labels": [str(name) for name in model.label_names_],
        "features": dict(zip(needs.features, needs.kinds, strict=True)),
        "settings": model.current_settings(),
        "best_epoch": None if history is None else history.best_epoch,
        "n_epochs": None if history is None else len(history.records),
        "stopped": None if history is None else history.stopped,
        "thresholds": model.thresholds_,
        "recipe": None if recipe is None else recipe.state(),
        "recipe_lines": None if recipe is None else recipe.lines(),
        "neighbours": None if neighbours is None else {**stored["neighbours"], "n_rows": len(neighbours.places)},
        "training": model_card(model),
    }
