"""What makes rows ready for a network: transformers that learn from training rows only."""
