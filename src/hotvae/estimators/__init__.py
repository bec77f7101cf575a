"""The scikit-learn faces, and the objects that wrap a fitted network."""
