"""Models as folders, and tensors in one file.

A model is a folder of ``config.json``, ``weights.safetensors`` and ``manifest.json``, which has a digest of the other
two. None can run code when it is read: nothing is ever unpickled. A folder is written beside its place and put there in
one step, so that a crash leaves either the old model or the new one; it is read into memory and checked as a whole, so
that nobody gets half of each.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of_bytes
from safetensors.torch import save as bytes_of_tensors
from torch import Tensor

from hotvae.errors import ModelError, listed
from hotvae.files import locked, place_beside, unwritable, whole_file, write_text

FORMAT = "hotvae-model"
FORMAT_VERSION = 3
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "weights.safetensors"
MANIFEST_FILE = "manifest.json"

# A folder that is replaced while it is read is read again, at most so often.
_READS = 20


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
    # safetensors refuses tensors that share memory or are not contiguous.
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(metadata)
    # One entry: safetensors writes several in an order that differs from run to run.
    sealed = {"sha256": _digest_of_tensors(owned, text), "notes": json.loads(text)}
    content = bytes_of_tensors(owned, metadata={"json": json.dumps(sealed)})
    with whole_file(path) as partial:
        partial.write_bytes(content)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Read what :func:`write_tensors` wrote, and check that it is what was written.

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
        When the file is missing, damaged or of another kind.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error
    tensors, entries = _tensors_and_notes(content, path)
    try:
        sealed = json.loads(entries.get("json", "null"))
        digest, notes = (sealed["sha256"], sealed["notes"]) if isinstance(sealed, dict) else ("", None)
        if digest != _digest_of_tensors(tensors, json.dumps(notes)):
            raise _unreadable(path, "its content does not match its checksum")
        return tensors, notes
    except (ValueError, KeyError) as error:
        raise _unreadable(path, error) from error


def _tensors_and_notes(content: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        found = tensors_of_bytes(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise _unreadable(path, error) from error
    # They come in any order, another one each time; shapes of layers are read off in theirs.
    return {name: found[name] for name in sorted(found)}, header.get("__metadata__", {})


def _digest_of_tensors(tensors: Mapping[str, Tensor], text: str) -> str:
    """Digest of the names, kinds, shapes and bytes of tensors, and of the text beside them."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        raw = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)  # one number may have a stride of 0
        digest.update(raw.view(torch.uint8).numpy())  # type: ignore[arg-type]
    return digest.hexdigest()


def _unreadable(path: str | os.PathLike[str], reason: object) -> ModelError:
    return ModelError(
        f"tensor file must be readable; got {os.fspath(path)} ({reason}). "
        "It is missing or damaged: use a copy, or train again."
    )


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
    path = real_folder(path)
    check_replaceable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, wait=True):
            new = place_beside(path)
            try:
                new.mkdir()
                write_tensors(new / WEIGHTS_FILE, tensors, None)
                header = {"format": FORMAT, "format_version": FORMAT_VERSION}
                write_text(new / CONFIG_FILE, json.dumps({**header, **config}, indent=1, ensure_ascii=False) + "\n")
                seal(new)
                _put_in_place(new, path)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise unwritable(path, error) from error


def seal(folder: str | os.PathLike[str]) -> None:
    """Write the manifest of a model folder: the digest of each file as it is now.

    Parameters
    ----------
    folder : path
        With ``config.json`` and ``weights.safetensors``.
    """
    digests = {name: _digest((Path(folder) / name).read_bytes()) for name in (CONFIG_FILE, WEIGHTS_FILE)}
    write_text(Path(folder) / MANIFEST_FILE, json.dumps({"files": digests}, indent=1) + "\n")


def real_folder(path: str | os.PathLike[str]) -> Path:
    """Follow links to where a model is, or will be; a link that leads nowhere is refused."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise ModelError(f"model folder must not be a link to itself; got {os.fspath(path)}. Remove the link.")
    return real


def _put_in_place(new: Path, path: Path) -> None:
    """Move a whole folder to a path that may have an older one; what is left at ``new`` may be removed."""
    if not path.exists():
        os.replace(new, path)
    elif not _exchanged(new, path):
        # Not at once, then; loading knows where to look in the meantime.
        retired = _retired(path)
        shutil.rmtree(retired, ignore_errors=True)
        os.replace(path, retired)
        try:
            os.replace(new, path)
        except BaseException:
            os.replace(retired, path)
            raise
    shutil.rmtree(_retired(path), ignore_errors=True)


def _retired(path: Path) -> Path:
    """Where an older model waits while the newer one is put in its place."""
    return path.with_name(f".{path.name}.old")


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or the disk cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    at_working_folder, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return rename is not None and not rename(
        at_working_folder, os.fsencode(one.absolute()), at_working_folder, os.fsencode(other.absolute()), exchange
    )


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
    if found and not (
        path.is_dir()
        and set(found) <= {CONFIG_FILE, WEIGHTS_FILE, MANIFEST_FILE}
        and read_config(path).get("format") == FORMAT
    ):
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
    for _ in range(_READS - 1):
        folder = path if path.is_dir() or not _retired(path).is_dir() else _retired(path)
        before = _which(folder)
        try:
            return _read_folder(folder)
        except ModelError:
            if path.is_dir() and _which(path) == before:  # nobody has replaced it: it is damaged
                raise
    return _read_folder(path)


def _which(folder: Path) -> tuple[int, int] | None:
    """Tell a folder from another one of its name."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _read_folder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read every file once and check it before anything is made of it."""
    if not path.is_dir():
        raise ModelError(f"model folder must exist; got {path}. Check the path, or train a model with `hotvae train`.")
    files = {name: _read(path / name) for name in (MANIFEST_FILE, CONFIG_FILE, WEIGHTS_FILE)}
    manifest, settings, weights = files.values()
    if settings is None:
        raise ModelError(
            f"model folder must hold {CONFIG_FILE}; got none ({path}). Point to a folder made by `hotvae train`."
        )
    if manifest is None:
        _check_format(_parsed(settings, path / CONFIG_FILE), path)  # of an older version, or of another tool
        raise ModelError(f"model folder must hold {MANIFEST_FILE}; got none ({path}). Restore the file or train again.")
    if weights is None:
        raise ModelError(f"model folder must hold {WEIGHTS_FILE}; got none ({path}). Restore the file or train again.")
    digests = _parsed(manifest, path / MANIFEST_FILE).get("files")
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not isinstance(digests, dict) or digests.get(name) != _digest(files[name] or b""):
            raise ModelError(
                f"{name} must match its checksum in {MANIFEST_FILE}; it does not ({path}). "
                "A file is damaged, edited or from another model: restore it from a copy, or train again."
            )
    config = _parsed(settings, path / CONFIG_FILE)
    _check_format(config, path)
    return config, _tensors_and_notes(weights, path / WEIGHTS_FILE)[0]


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a model folder says of its model, whatever its weights are; empty where it cannot be read."""
    try:
        return _parsed(_read(Path(path) / CONFIG_FILE) or b"", Path(path) / CONFIG_FILE)
    except (ModelError, OSError):
        return {}


def _check_format(config: Mapping[str, Any], path: Path) -> None:
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
        extra = config.get("extra")
        command = extra.get("command") if isinstance(extra, dict) else None
        raise ModelError(
            f"model format must be {FORMAT_VERSION}; got {version}, which hotvae {config.get('hotvae_version', '0.1')} "
            f"wrote before every file had a checksum ({path / CONFIG_FILE}). Train it anew: "
            f"{command or 'hotvae train TABLE --out MODEL, as before'}"
        )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path.name} must be whole JSON; got {error} ({path}). The file is damaged: restore it, or train again."
        ) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path.name} must hold a JSON object; got {type(found).__name__} ({path}). Train again.")
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
