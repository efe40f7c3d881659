"""A Flower app: a hospital and an insurer find groups of persons without sharing columns."""
