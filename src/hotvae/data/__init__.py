"""Tables in, data sets out: reading, splitting, scaling; numpy, scipy and pandas, never torch."""
