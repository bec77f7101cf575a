"""``hotvae info``: what a model is, how it was trained and on what."""

from hotvae.cli.options import Json, ModelFolder
from hotvae.cli.printing import best_epoch, print_json
from hotvae.errors import listed


def info(model_folder: ModelFolder, as_json: Json = False) -> None:
    """Show what a model is, how it was trained and on what."""
    from hotvae.jobs.info import describe_model

    found = describe_model(model_folder)
    if as_json:
        print_json(found)
        return
    card, settings, neighbours = found["training"], found["settings"], found["neighbours"]
    rows = f"{card.get('n_train', '?')} for training, {card.get('n_validation', '?')} for validation"
    if found["recipe"] is not None:  # each row is held out once
        rows = f"{card.get('n_train', '?')} ({found['recipe']['folds']})"
    shown = {
        "model": f"{model_folder} ({found['kind']}, {found['n_parameters']:,} parameters)",
        "written by": f"hotvae {found['hotvae_version']}, torch {found['torch_version']}",
        "trained": f"{card.get('date', 'unknown')} on {card.get('table', 'a table in neighbours')}",
        "command": card.get("command") or "none noted",
        "rows": rows,
        "labels": f"{len(found['labels'])}: {listed(found['labels'], 8)}",
        "features": f"{len(found['features'])}: {listed(found['features'], 8)}",
        **({} if found["best_epoch"] is None else {"best epoch": best_epoch(found)}),
        "thresholds": ", ".join(f"{name} {value:g}" for name, value in found["thresholds"].items()) or "none tuned",
        "settings": ", ".join(f"{name}={value}" for name, value in settings.items()),
    }
    if neighbours is not None:
        shown["remembers"] = (
            f"labels and latent places of {neighbours['n_rows']:,} training rows; "
            f"a row's {neighbours['n_neighbours']} nearest have a share of {neighbours['share']:g} in its prediction"
        )
    for name, value in shown.items():
        print(f"{name:<11} {value}")
    for number, line in enumerate(found["recipe_lines"] or []):
        print(f"{'' if number else 'recipe':<11} {line}")
