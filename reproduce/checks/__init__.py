"""Searches for what must not be: falls, crossings, leaks, noise, and scores that need no model."""
