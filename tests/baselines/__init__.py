"""Tests of the systems HOT-VAE is held against."""
