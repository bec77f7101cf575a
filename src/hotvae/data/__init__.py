"""Data sets: tables and how they are read, split, named and fetched; numpy, scipy and pandas, never torch."""
