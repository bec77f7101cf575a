"""The one door to the packages of the extra ``geo``."""

from typing import Any

from hotvae.config import require_module


def geo_module(name: str, purpose: str) -> Any:
    """Import a module of the extra ``geo``, or say in one sentence how to get it.

    Parameters
    ----------
    name : str
        Of the module, such as ``"rasterio"`` or ``"rasterio.windows"``.
    purpose : str
        What it is needed for, as the message says it: ``"read rasters"``.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ConfigError
        If the package is not installed.

    Examples
    --------
    >>> geo_module("no_such", "read rasters")
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: no_such must be installed to read rasters; got none. The extra 'geo' of hotvae brings
    it: pip install ...
    """
    return require_module(name, purpose, "geo")
