"""An encoder of one's own: small images in, tokens with a mean and a log-variance out."""

import numpy as np
import torch
from torch import nn

from hotvae import HotVAENetwork, Training


class Patches(nn.Module):
    """A small convolutional network whose 4 patches are the latent tokens of a 16-by-16 image."""

    n_tokens = 4

    def __init__(self, dim):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, 2 * dim, 2, stride=2))
        self.place = nn.Parameter(torch.randn(4, dim))  # tokens are a set: each must say where it is

    def forward(self, x):
        seen = self.look(x.unflatten(1, (1, 16, 16)))  # (rows, 2 dim, 2, 2)
        mean, log_variance = seen.flatten(2).transpose(1, 2).chunk(2, dim=-1)  # (rows, 4, dim) each
        return mean + self.place, log_variance - 4


# Images of bright squares; the labels say which quarters have one, and whether opposite quarters both do.
rng = np.random.default_rng(0)
quarters = rng.integers(0, 2, size=(800, 4))
images = rng.normal(size=(800, 16, 16)) * 0.3 + quarters.reshape(-1, 2, 2).repeat(8, axis=1).repeat(8, axis=2)
labels = np.column_stack([quarters, quarters[:, 0] & quarters[:, 3], quarters[:, 1] & quarters[:, 2]])

torch.manual_seed(0)
training = Training(max_epochs=15, learning_rate=0.003)
model = HotVAENetwork(encoder=Patches(dim=32), dim=32, training=training, random_state=0)
model.fit(images[:600].reshape(600, -1), labels[:600])
print(f"macro F1 on new images: {model.score(images[600:].reshape(200, -1), labels[600:]):.3f}")
