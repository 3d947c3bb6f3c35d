"""Rows of results that were never run."""

from typing import Any


def row(**values: Any) -> dict[str, Any]:
    """One row; what is not given is a held-out AUC of GCM on Adult."""
    shared = {
        "experiment": "public", "dataset": "adult", "variant": "default", "protocol": "held-out",
        "split": "0", "seed": 0, "method": "GCM", "settings": '{"hidden": 32}', "metric": "AUC",
        "value": 0.8, "seconds": 1.0, "epochs": 1, "device": "cpu", "versions": "python 3.11; cpu",
    }  # fmt: skip
    return shared | values
