"""What training and prediction cost in time and memory: the measurements behind ``docs/performance.md``."""
