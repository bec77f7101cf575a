"""Files that survive: text and tensors in atomic files, and models as folders.

A model is a folder of two files, ``config.json`` and ``weights.safetensors``. Neither can run code when it is read:
nothing is ever unpickled. Every file is written beside its place and moved there in one step, so a crash leaves
either the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hotvae.errors import ConfigError, ModelError, listed

FORMAT = "hotvae-model"
FORMAT_VERSION = 2
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "weights.safetensors"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all.

    Parameters
    ----------
    path : path
        The file; its folder is made if needed, an older file is replaced.
    text : str
        What to write, in UTF-8.

    Raises
    ------
    ConfigError
        A place that cannot be written to.
    """
    target = Path(path)
    partial: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        partial = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        os.replace(partial, target)
    except OSError as error:
        raise ConfigError(
            f"path must be a place one can write to; got {str(target)!r} ({error.strerror or error}). "
            "Choose another folder."
        ) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def json_ready(value: Any) -> Any:
    """Turn a result into what JSON knows: arrays become lists, NaN and infinity null.

    Parameters
    ----------
    value : object
        Mappings, sequences, arrays and scalars, nested as they like.

    Returns
    -------
    object
    """
    if isinstance(value, Mapping):
        return {str(name): json_ready(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_ready(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Any) -> None:
    """Write tensors and JSON-able metadata to one file, atomically.

    Parameters
    ----------
    path : path
        Where the file goes; its folder must exist.
    tensors : mapping of str to Tensor
        What to store.
    metadata : JSON-able
        Stored beside the tensors.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.touch(exist_ok=False)
        usual_mode = temporary.stat().st_mode
        # safetensors refuses tensors that share memory or are not contiguous.
        owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(owned, temporary, metadata={"json": json.dumps(metadata)})
        temporary.chmod(usual_mode)  # save_file lets the owner alone read; a model is made to be shared
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Read what :func:`write_tensors` wrote.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    tensors : dict of str to Tensor
    metadata : JSON-able

    Raises
    ------
    ModelError
        When the file is missing, truncated or of another kind.
    """
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
            metadata = json.loads((file.metadata() or {}).get("json", "null"))
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise ModelError(
            f"tensor file must be readable; got {os.fspath(path)} ({error}). "
            "It is missing or damaged: use a copy, or train again."
        ) from error
    return tensors, metadata


def save_folder(path: str | os.PathLike[str], config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model folder, replacing an older model of ours but nothing else.

    Parameters
    ----------
    path : path
        The folder; its parent is made if needed.
    config : mapping
        JSON-able description of the model.
    tensors : mapping of str to Tensor
        Its weights.

    Raises
    ------
    ModelError
        When ``path`` exists and is not a hotvae model.

    Examples
    --------
    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_folder(folder + "/model", {"kind": "demo"}, {"a": torch.ones(2)})
    ...     config, tensors = load_folder(folder + "/model")
    >>> config["kind"], tensors["a"]
    ('demo', tensor([1., 1.]))
    """
    path = Path(path)
    check_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        write_tensors(temporary / WEIGHTS_FILE, tensors, None)
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "weights_sha256": _digest(temporary / WEIGHTS_FILE),
        }
        text = json.dumps({**header, **config}, indent=1, ensure_ascii=False)
        (temporary / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
        _flush(temporary / CONFIG_FILE)
        temporary.chmod(0o755)
        if path.exists():
            retired = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            try:
                os.replace(path, retired)
                os.replace(temporary, path)
            except BaseException:
                if path.exists():
                    retired.rmdir()
                else:
                    os.replace(retired, path)
                raise
            shutil.rmtree(retired, ignore_errors=True)
        else:
            os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuse to write a model over anything that is not a hotvae model.

    Raises
    ------
    ModelError
        When ``path`` is a file, or a folder with other things in it.
    """
    path = Path(path)
    if not path.exists():
        return
    found = [path.name] if path.is_file() else sorted(entry.name for entry in path.iterdir())
    if found and not (path.is_dir() and set(found) <= {CONFIG_FILE, WEIGHTS_FILE} and _is_ours(path)):
        raise ModelError(
            f"model folder must be new, empty or a hotvae model; got {path} with {listed(found)}. Choose another path."
        )


def load_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder and check that it is whole.

    Parameters
    ----------
    path : path
        A folder written by :func:`save_folder`.

    Returns
    -------
    config : dict
    tensors : dict of str to Tensor

    Raises
    ------
    ModelError
        When the folder is missing, foreign, damaged, or written in another format.
    """
    path = Path(path)
    if not path.is_dir():
        raise ModelError(f"model folder must exist; got {path}. Check the path, or train a model with `hotvae train`.")
    config = _read_config(path / CONFIG_FILE)
    if config.get("format") != FORMAT:
        raise ModelError(
            f"model folder must be written by hotvae; got format {config.get('format')!r} ({path / CONFIG_FILE}). "
            "Point to a folder made by `hotvae train` or `save`."
        )
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelError(
            f"model format must be at most {FORMAT_VERSION}; got {version!r} ({path / CONFIG_FILE}). "
            f"The model was written by hotvae {config.get('hotvae_version', 'of a later version')}: upgrade hotvae."
        )
    if version < FORMAT_VERSION:
        command = (config.get("extra") or {}).get("command")
        raise ModelError(
            f"model format must be {FORMAT_VERSION}; got {version}, which hotvae {config.get('hotvae_version', '0.1')} "
            f"wrote before its parameters were regrouped ({path / CONFIG_FILE}). Train it anew: "
            f"{command or 'hotvae train TABLE --out MODEL, as before'}"
        )
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise ModelError(f"model folder must hold {WEIGHTS_FILE}; got none ({path}). Restore the file or train again.")
    if _digest(weights) != config.get("weights_sha256"):
        raise ModelError(
            f"{WEIGHTS_FILE} must match its checksum in {CONFIG_FILE}; it does not ({path}). "
            "The file is damaged or from another model: restore it from a copy, or train again."
        )
    return config, read_tensors(weights)[0]


def _is_ours(folder: Path) -> bool:
    try:
        return bool(_read_config(folder / CONFIG_FILE).get("format") == FORMAT)
    except (ModelError, OSError):
        return False


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"model folder must hold {CONFIG_FILE}; got none ({path.parent}). Point to a folder made by `hotvae train`."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(
            f"{CONFIG_FILE} must be whole JSON; got {error} ({path}). The file is damaged: restore it, or train again."
        ) from error
    if not isinstance(config, dict):
        raise ModelError(f"{CONFIG_FILE} must hold a JSON object; got {type(config).__name__} ({path}). Train again.")
    return config


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
