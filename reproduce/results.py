"""Where results lie, what they were made with, and how a table is written."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
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


def versions_of_files(results: Mapping[str, pd.DataFrame]) -> str:
    """A line for each set of versions, with the files that have fits of it.

    :param results: tables by the names of their files.
    """
    found: dict[str, list[str]] = {}
    for name, table in results.items():
        for each in sorted(set(table["versions"])) if "versions" in table else ():
            found.setdefault(each, []).append(f"`{name}.csv`")
    return "\n".join(f"- {each}: {', '.join(found[each])}" for each in sorted(found))


@lru_cache(maxsize=1)
def _commit() -> str:
    """The commit of the code, and whether code was changed since; empty where there is no git."""
    here = ["git", "-C", str(Path(__file__).parents[1])]
    try:
        commit, changes = (
            subprocess.run([*here, *command], capture_output=True, text=True, check=True).stdout
            for command in (
                ["rev-parse", "--short=10", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no", "pyro_gcm", "reproduce/*.py"],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" {commit.strip()}{' with changes' if changes else ''}"


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table so that an interruption leaves the old file or the new one."""
    write_file(path, table.to_csv(index=False, float_format="%.6g").encode())


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
