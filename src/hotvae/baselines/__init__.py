"""Baselines: the systems HOT-VAE is compared with."""
