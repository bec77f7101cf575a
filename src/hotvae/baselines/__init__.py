"""The systems HOT-VAE is held against, one file each."""
