"""What a fitted model says about its labels: associations left over given the features."""

from hotvae.explain.associations import (
    Association,
    Associations,
    Contrast,
    residual_associations,
    strongest_associations,
)

__all__ = [
    "Association",
    "Associations",
    "Contrast",
    "residual_associations",
    "strongest_associations",
]
