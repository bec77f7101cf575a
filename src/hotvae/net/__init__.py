"""The network: torch modules and pure functions, no files, no devices, no scikit-learn."""
