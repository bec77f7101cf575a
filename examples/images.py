"""Images: a small convolutional network as the encoder, whose four patches are the latent tokens."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from hotvae import HotVAENetwork, Training


class SmallCNN(nn.Module):
    """An 8-by-8 image, flat and scaled, becomes 4 tokens with a mean and a log-variance."""

    n_tokens = 4

    def __init__(self, dim):
        super().__init__()
        first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.look = nn.Sequential(first, second, nn.Conv2d(32, 2 * dim, 1))
        self.place = nn.Parameter(torch.randn(4, dim))  # tokens are a set: each must say where it is

    def forward(self, x):
        seen = self.look(x.unflatten(1, (1, 8, 8)))  # (rows, 2 dim, 2, 2)
        mean, log_variance = seen.flatten(2).transpose(1, 2).chunk(2, dim=-1)  # (rows, 4, dim) each
        return mean + self.place, log_variance - 4


images, digit = load_digits(return_X_y=True)
questions = {"even": (0, 2, 4, 6, 8), "above 4": (5, 6, 7, 8, 9), "prime": (2, 3, 5, 7), "has a loop": (0, 6, 8, 9)}
labels = np.column_stack([np.isin(digit, answer) for answer in questions.values()]).astype(int)

torch.manual_seed(0)
training = Training(max_epochs=15, learning_rate=0.005)
model = HotVAENetwork(encoder=SmallCNN(dim=32), dim=32, training=training, random_state=0)
model.fit(images[:1200], labels[:1200])
right = (model.predict(images[1200:]) == labels[1200:]).mean(axis=0)
print(", ".join(f"{question}: {share:.0%} right" for question, share in zip(questions, right, strict=True)))
