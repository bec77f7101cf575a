"""What a fitted model says about its labels: with whom, where, and because of what."""

from hotvae.explain.associations import (
    Association,
    Associations,
    Contrast,
    residual_associations,
    strongest_associations,
)
from hotvae.explain.interactions import (
    ConditionalModel,
    answers_given,
    association_map,
    associations,
    flip_effects,
    gradient_groups,
    group_changes,
    pair_table,
    shuffle_within_strata,
    third_order,
)
from hotvae.explain.recovery import Recovery, TrueModel, score_recovery
from hotvae.explain.responses import (
    correlated_groups,
    deviance_partition,
    permutation_importance,
    response_curves,
    response_surface,
)

__all__ = [
    "Association",
    "Associations",
    "ConditionalModel",
    "Contrast",
    "Recovery",
    "TrueModel",
    "answers_given",
    "association_map",
    "associations",
    "correlated_groups",
    "deviance_partition",
    "flip_effects",
    "gradient_groups",
    "group_changes",
    "pair_table",
    "permutation_importance",
    "residual_associations",
    "response_curves",
    "response_surface",
    "score_recovery",
    "shuffle_within_strata",
    "strongest_associations",
    "third_order",
]
