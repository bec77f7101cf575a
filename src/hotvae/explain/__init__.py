"""What a fitted model says about its labels: with whom, where, and because of what."""

from hotvae.explain.associations import (
    Association,
    Associations,
    Contrast,
    residual_associations,
    strongest_associations,
)
from hotvae.explain.conditional import ConditionalModel, answers_given, flip_effects
from hotvae.explain.edges import edge_agreement, edges, sign_changes
from hotvae.explain.groups import gradient_groups
from hotvae.explain.interactions import (
    association_map,
    associations,
    group_changes,
    pair_table,
    third_order,
)
from hotvae.explain.recovery import Recovery, TrueModel, score_recovery
from hotvae.explain.resampling import shuffle_within_strata
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
    "edge_agreement",
    "edges",
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
    "sign_changes",
    "strongest_associations",
    "third_order",
]
