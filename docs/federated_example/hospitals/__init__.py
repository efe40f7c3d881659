"""A Flower app: hospitals find groups of patients without sharing the patients."""

BOUNDS = ([0.0, 80.0], [100.0, 200.0])  # age in years, blood pressure in mmHg: public
