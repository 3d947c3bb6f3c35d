"""Checks, seeds, recipes: what every other package may use."""
