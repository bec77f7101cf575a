"""Checks of parameters; they live in :mod:`hotvae.parameters`."""

from hotvae.parameters import require_choice, require_count, require_number, require_widths

__all__ = ["require_choice", "require_count", "require_number", "require_widths"]
