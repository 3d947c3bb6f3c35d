"""Where results lie, what they were made with, and how a table is written."""

from __future__ import annotations

import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyro
import sklearn
import torch

import pyro_gcm
from pyro_gcm._utils.files import write_file

RESULTS = Path(__file__).parent / "results"


def versions(device: str = "cpu") -> str:
    """What the numbers depend on besides the command and the seed, boosting libraries apart."""
    return (
        f"python {platform.python_version()}; torch {torch.__version__}; pyro {pyro.__version__}; "
        f"numpy {np.__version__}; scikit-learn {sklearn.__version__}; "
        f"pyro_gcm {pyro_gcm.__version__}{_commit()}; {device}"
    )


@lru_cache(maxsize=1)
def _commit() -> str:
    """The commit of the code, and whether code was changed since; empty where there is no git."""
    told = []
    for command in (
        "rev-parse --short=10 HEAD",
        "status --porcelain --untracked-files=no pyro_gcm reproduce/*.py",
    ):
        git = ["git", "-C", str(Path(__file__).parents[1]), *command.split()]
        try:
            told.append(subprocess.run(git, capture_output=True, text=True, check=True).stdout)
        except (OSError, subprocess.CalledProcessError):
            return ""
    return f" {told[0].strip()}{' with changes' if told[1] else ''}"


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table so that an interruption leaves the old file or the new one."""
    write_file(path, table.to_csv(index=False, float_format="%.6g").encode())
