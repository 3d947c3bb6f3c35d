"""Shared by all tests."""

# `--doctest-modules` would import every conftest.py a second time, under the same name.
collect_ignore_glob = ["*conftest.py"]
