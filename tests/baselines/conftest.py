"""Shapes in the rivals' networks are checked at run time, as those of hotvae.net are.

Only in networks: what users pass to the classifiers beside them is checked by rules of our own, in fit.
"""

import inspect

from beartype import beartype
from jaxtyping import jaxtyped
from torch import nn

from hotvae.baselines import c2ae, lamp, mpvae, multivariate_probit, probit, seq2seq

for module in (c2ae, lamp, mpvae, multivariate_probit, probit, seq2seq):
    for network in list(vars(module).values()):
        if inspect.isclass(network) and issubclass(network, nn.Module) and network.__module__ == module.__name__:
            for name, function in list(vars(network).items()):
                if inspect.isfunction(function):
                    setattr(network, name, jaxtyped(function, typechecker=beartype))
