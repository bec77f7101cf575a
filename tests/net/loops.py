"""The equations once more, slowly: plain Python numbers, one cell after the other.

Each function follows the paper, takes its weights from a module of ours, and shares no code with it.
"""

import math

import torch

from hotvae.config import NetConfig

SMALL = {
    "dim": 4,
    "latent_dim": 0,
    "n_layers": 2,
    "n_heads": 2,
    "encoder_widths": (6, 5),
    "label_encoder_widths": (5,),
    "encoder_dropout": 0.0,
    "decoder_dropout": 0.0,
    "encoder_layers": 2,
    "label_encoder": "mlp",
    "direct_path": True,
    "initial_log_variance": -1.0,
}


def small_config(**changes):
    """Settings of a small network, every one of them stated."""
    return NetConfig(**(SMALL | changes))


def scrambled(module, seed=0):
    """The module in float64 with random numbers in every parameter, biases and gains included."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def normal(*shape, seed=0):
    """Standard normal numbers in float64 from a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(actual, expected, tolerance=1e-10):
    """Fail unless both hold the same numbers (written here: torch.testing takes 5 s to import)."""
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    assert actual.shape == expected.shape
    furthest = (actual - expected).abs().max().item()
    assert furthest <= tolerance, f"{furthest} apart: {actual.tolist()} and {expected.tolist()}"


# One vector -----------------------------------------------------------------------------------------------


def linear(layer, x):
    bias = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
    answer = []
    for row, offset in zip(layer.weight.tolist(), bias, strict=True):
        total = offset
        for weight, value in zip(row, x, strict=True):
            total += weight * value
        answer.append(total)
    return answer


def layer_norm(norm, x):
    mean = sum(x) / len(x)
    spread = math.sqrt(sum((value - mean) ** 2 for value in x) / len(x) + 1e-5)
    gain, shift = norm.weight.tolist(), norm.bias.tolist()
    return [g * (value - mean) / spread + s for g, value, s in zip(gain, x, shift, strict=True)]


def feedforward(block, x):
    first, _, second = block
    return linear(second, [max(value, 0.0) for value in linear(first, x)])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# Messages to the labels of one row ------------------------------------------------------------------------


def attention(query, keys, values, n_heads, listens):
    """What one receiver collects; the softmax runs over the senders it listens to and no others."""
    width = len(query) // n_heads
    mixed = []
    for head in range(n_heads):
        part = range(head * width, (head + 1) * width)
        powers = {}
        for sender, key in enumerate(keys):
            if listens[sender]:
                powers[sender] = math.exp(sum(query[c] * key[c] for c in part) / math.sqrt(width))
        for c in part:
            total = sum(power * values[sender][c] for sender, power in powers.items())
            mixed.append(total / sum(powers.values()))
    return mixed


def label_message(message, states, graph, n_heads):
    dim = len(states[0])
    projected = [linear(message.query_key_value, state) for state in states]
    keys, values = [p[dim : 2 * dim] for p in projected], [p[2 * dim :] for p in projected]
    answer = []
    for receiver in range(len(states)):
        listens = [True] * len(states) if graph is None else graph[receiver]
        mixed = attention(projected[receiver][:dim], keys, values, n_heads, listens)
        answer.append(linear(message.merge, mixed))
    return answer


def feature_message(message, states, tokens, mask, n_heads):
    if message.query is None:
        return [linear(message.value, tokens[0]) for _ in states]
    keys = [linear(message.key, token) for token in tokens]
    values = [linear(message.value, token) for token in tokens]
    listens = [True] * len(tokens) if mask is None else mask
    return [
        linear(message.merge, attention(linear(message.query, state), keys, values, n_heads, listens))
        for state in states
    ]


def residual(module, states, block):
    return [
        layer_norm(module.norm, [value + change for value, change in zip(state, update, strict=True)])
        for state, update in zip(states, block(states), strict=True)
    ]


def decoder_layer(layer, n_heads, states, tokens, mask, graph):
    one, two, three, four = layer.residuals
    states = residual(one, states, lambda u: feature_message(layer.feature_message, u, tokens, mask, n_heads))
    states = residual(two, states, lambda u: [feedforward(layer.feature_feedforward, x) for x in u])
    states = residual(three, states, lambda u: label_message(layer.label_message, u, graph, n_heads))
    return residual(four, states, lambda u: [feedforward(layer.label_feedforward, x) for x in u])


def decoder(module, config, tokens, mask=None):
    """Logits of one row after every layer."""
    graph = None if module.graph is None else module.graph.tolist()
    states, weight, bias = module.embedding.tolist(), module.weight.tolist(), module.bias.tolist()
    first_guess = [0.0] * len(states)
    if config.direct_path:
        first_guess = linear(module.direct, token_mean(tokens, mask))
    every_layer = []
    for layer in module.layers:
        states = decoder_layer(layer, config.n_heads, states, tokens, mask, graph)
        every_layer.append(
            [
                sum(w * u for w, u in zip(weight[i], state, strict=True)) + bias[i] + first_guess[i]
                for i, state in enumerate(states)
            ]
        )
    return every_layer


# Gaussians of one row -------------------------------------------------------------------------------------


def token_mean(tokens, mask=None):
    real = [token for number, token in enumerate(tokens) if mask is None or mask[number]]
    return [sum(token[c] for token in real) / len(real) for c in range(len(tokens[0]))]


def pool(mean, log_variance, mask):
    variance = [[math.exp(value) for value in token] for token in log_variance]
    return token_mean(mean, mask), token_mean(variance, mask)


def kl(label_mean, label_variance, feature_mean, feature_variance):
    total = 0.0
    for my, vy, mx, vx in zip(label_mean, label_variance, feature_mean, feature_variance, strict=True):
        total += 0.5 * (vy / vx - 1 - math.log(vy / vx) + (my - mx) ** 2 / vx)
    return total


def mlp(encoder, x):
    """Mean and log-variance of one row."""
    for layer in encoder.hidden:
        if isinstance(layer, torch.nn.Linear):
            x = [max(value, 0.0) for value in linear(layer, x)]
    low, high = -12.0, 8.0
    return linear(encoder.head.mean, x), [min(max(v, low), high) for v in linear(encoder.head.log_variance, x)]


# Losses of one row ----------------------------------------------------------------------------------------


def bce(logits, labels):
    cells = [
        -(y * math.log(sigmoid(s)) + (1 - y) * math.log(1 - sigmoid(s)))
        for s, y in zip(logits, labels, strict=True)
        if not math.isnan(y)
    ]
    return sum(cells) / len(cells) if cells else 0.0


def intermediate(layer_logits, labels):
    return sum(bce(logits, labels) for logits in layer_logits[:-1])


def ranking(probs, labels, scale):
    pairs = [
        math.exp(-scale * (probs[r] - probs[s])) / scale
        for r, relevant in enumerate(labels)
        for s, other in enumerate(labels)
        if relevant == 1 and other == 0
    ]
    return sum(pairs) / len(pairs) if pairs else 0.0


def marginal_probs(mean, factors):
    """Probability of each label by itself in a multivariate probit: Phi(m_l / sqrt(1 + |B_l|^2))."""
    return torch.special.ndtr(mean / (1 + factors.square().sum(-1)).sqrt())
