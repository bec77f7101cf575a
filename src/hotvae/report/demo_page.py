"""The old place of ``write_text``, until its last users import it from :mod:`hotvae.checkpoint`."""

from hotvae.checkpoint import write_text

__all__ = ["write_text"]
