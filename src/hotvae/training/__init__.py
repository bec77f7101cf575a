"""The one training loop, prediction in batches, progress."""
