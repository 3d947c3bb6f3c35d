"""Searches for what must not be: falls of predictions and of the functions in them."""
