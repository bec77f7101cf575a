"""Whole jobs on files: train, predict, evaluate, demo."""
