"""Measures of predictions against labels, in numpy."""
