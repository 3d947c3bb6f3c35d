"""The files of results: the command of each, how many fits it has, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from reproduce.curves import survival
from reproduce.defaults import credit
from reproduce.methods import NETWORKS
from reproduce.released.tables import main_rows
from reproduce.rendering import many_sets
from reproduce.rendering.markdown import known_first
from reproduce.runs import KEY, Refused, read_results
from reproduce.searching import search
from reproduce.studies import STUDIES, Command
from reproduce.study import Protocols

FINALS_OF = [f"search_{name}" for name in search.PLANS]
SURVIVAL, CREDIT_FILES = ([*study.planned()] for study in (survival.STUDY, credit.STUDY))
#: In the order of the report.
_COMMANDS = (
    *("datasets", "quantile", "quantile --setting paper", "public --protocol published"),
    *("public --protocol released", "public --protocol changes --seeds 5"),
    *("public --protocol positive", "public", "public --protocol confirmation"),
    *("public --protocol members", "ablation", "ablation --protocol released", "timing"),
    *("auctions", "trials", "search", "untouched", "credit", "credit_falls"),
    *("credit_witnesses", "falls"),
    *("survival", "ordinal", "distribution", "intervals", "stories", "bands", "selection"),
    *("primitives", "reference_posteriors", "posterior_coverage"),
)


def _files(words: str) -> dict[str, int]:
    """The files of a command -> their fits; 0 for one without fits, or with one of times."""
    name, *options = words.split()
    study = STUDIES[name]
    if isinstance(study, Protocols):
        protocols = study.studies
        study = protocols[options[1] if options else next(iter(protocols))]
    if name == "search":
        return search.planned()
    if isinstance(study, Command) or name == "timing":
        return {name: 0}
    again = 256 if name == "primitives" else 0  # four functions with ATEN_CPU_CAPABILITY=avx2
    share = 2 if "--seeds" in options else 1  # five seeds in place of ten
    return {file: count // share + again for file, count in study.planned().items()}


#: File of results -> the command that makes it, and the fits at its defaults.
FILES = {file: (words, fits) for words in _COMMANDS for file, fits in _files(words).items()}


class Results(dict[str, pd.DataFrame]):
    """Tables of results by the name of their file, and those of `JOINED`.

    :raises KeyError: with the name of a file, for a table that is not there.
    """

    def __missing__(self, name: str) -> Any:
        if name not in JOINED:
            raise KeyError(name)
        return JOINED[name](self)


def read(folder: Path, device: str = "cpu") -> Results:
    """Every table that is there and has rows, in an order that its file does not decide.

    :param device: of the rows; only the table of times has those of all devices.
    :raises Refused: if there is no such folder.
    """
    if not folder.is_dir():
        raise Refused(f"--results {folder}: there is no such folder")
    results = Results()
    for path in (folder / f"{name}.csv" for name in FILES):
        if path.exists() and path.stem in ("datasets", "credit_witnesses"):
            results[path.stem] = pd.read_csv(path)
        elif path.exists():
            table = read_results(path).sort_values([*KEY, "metric", "device"], kind="stable")
            if path.stem != "timing":
                table = table[table["device"] == device]
            if len(table):
                results[path.stem] = table.reset_index(drop=True)
    files = {file.stem: file for file in sorted((folder / "quantile_curves").glob("*.csv"))}
    if files:
        curves = [pd.read_csv(files[name]) for name in known_first(files)]
        results["quantile_curves"] = pd.concat(curves, ignore_index=True)
    return results


def joined(results: Results, files: Iterable[str]) -> pd.DataFrame:
    """The tables of those of some files that are there.

    :raises KeyError: with the first one, if none is.
    """
    first, *_ = files = list(files)
    there = [results[file] for file in files if file in results]
    return pd.concat(there, ignore_index=True) if there else results[first]


def _pooled(results: Results) -> pd.DataFrame:
    """The held-out fits on the splits of both rounds, and those of members."""
    return joined(results, ["public_members", "public_held-out", "public_confirmation"])


def _many(results: Results) -> pd.DataFrame:
    """All fits that are compared with members over the data sets.

    The final fits of the search; IGCM and the networks, which it lacks, on the held-out splits of
    default members; and defaults on the untouched sets.
    """
    held_out = results["pooled"]
    held_out = held_out[held_out["method"].isin(["IGCM", *NETWORKS, "Members, default"])]
    held_out = held_out.replace({"method": {"Members, default": many_sets.REFERENCE}})
    return pd.concat([results["finals"], held_out, results["untouched"]], ignore_index=True)


#: Name in place of that of a file -> the rows of several or some of one; None: of the paper.
JOINED: dict[str, Callable[[Results], Any]] = {
    "all": lambda results: results,
    "paper": lambda results: None,
    "released": lambda results: main_rows(results["public_released"]),
    # Other maps to positive weights, and the paper's own of the released protocol.
    "positive_maps": lambda results: pd.concat([results["public_positive"], results["released"]]),
    "finals": lambda results: joined(results, FINALS_OF),
    "pooled": _pooled,
    "credit": lambda results: joined(results, CREDIT_FILES),
    "many": _many,
    "survival": lambda results: joined(results, SURVIVAL),
}
