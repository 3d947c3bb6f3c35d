"""Tables of results by the names of their files, and those that belong together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from reproduce.ablations import latent_sizes
from reproduce.arguments import Refused
from reproduce.methods.defaults import NETWORKS
from reproduce.released import tables as released_tables
from reproduce.rendering import many_sets
from reproduce.rendering.markdown import known_first
from reproduce.rendering.result_files import FILES, FINALS_OF, MANY_SETTINGS
from reproduce.runs import KEY, read_results

#: Files whose fits are all on the one split of the paper's code.
_FIXED = ("public_published", "ablation", "ablation_released")


class Results(dict[str, pd.DataFrame]):
    """Tables of results by the name of their file.

    :raises NotRun: for a table that is not there.
    """

    def __missing__(self, name: str) -> pd.DataFrame:
        raise NotRun(name)


class NotRun(KeyError):
    """There are no results in a file."""


def read(folder: Path, device: str = "cpu") -> Results:
    """Every table that is there and has rows, in an order that its file does not decide.

    :param device: of the rows; only the table of times has those of all devices.
    :raises Refused: if there is no such folder, a method has two settings on one split where there
        should be one, or rows are of a split that the protocol no longer has.
    """
    if not folder.is_dir():
        raise Refused(f"--results {folder}: there is no such folder")
    results = Results()
    for name in FILES:
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        if name in ("datasets", "credit_witnesses"):
            table = pd.read_csv(path)
        else:
            table = read_results(path).sort_values([*KEY, "metric", "device"], kind="stable")
            if name != "timing":
                table = table[table["device"] == device]
            if name not in MANY_SETTINGS:
                _check_settings(table, path)
            elif name == "public_released":
                _check_settings(released_tables.main_rows(table), path)
            if name in _FIXED:
                _check_split(table, path)
            if name.startswith("ablation"):
                table = latent_sizes.with_sizes(table)
        if len(table):
            results[name] = table.reset_index(drop=True)
    files = {file.stem: file for file in sorted((folder / "quantile_curves").glob("*.csv"))}
    if files:
        curves = [pd.read_csv(files[name]) for name in known_first(files)]
        results["quantile_curves"] = pd.concat(curves, ignore_index=True)
    return results


def _check_settings(table: pd.DataFrame, path: Path) -> None:
    identity = [name for name in KEY if name != "settings"]
    twice = table[table.duplicated([*identity, "metric"])]
    if len(twice):
        row = twice.iloc[0]
        raise Refused(
            f"{path}: {row['method']} on {row['dataset']}, seed {row['seed']} has two settings, "
            "expected one: remove the rows of the other (a --quick run?)"
        )


def _check_split(table: pd.DataFrame, path: Path) -> None:
    other = table[table["split"] != "fixed"]
    if len(other):
        row = other.iloc[0]
        raise Refused(
            f"{path}: {row['method']} on {row['dataset']}, seed {row['seed']} has the split "
            f"{row['split']}, expected 'fixed': remove the rows of the former protocol"
        )


def joined(results: Results, files: Iterable[str]) -> pd.DataFrame:
    """The tables of those of some files that are there.

    :raises NotRun: with the first one, if none is.
    """
    files = list(files)
    found = [results[file] for file in files if file in results]
    if not found:
        raise NotRun(files[0])
    return pd.concat(found, ignore_index=True)


def finals(results: Results) -> pd.DataFrame:
    """The final fits of the search on every data set that has some."""
    return joined(results, FINALS_OF)


def pooled(results: Results) -> pd.DataFrame:
    """The held-out fits on the splits of both rounds, and those of members."""
    return joined(results, ["public_members", "public_held-out", "public_confirmation"])


def many(results: Results) -> pd.DataFrame:
    """All fits that are compared with members over the data sets.

    The final fits of the search; IGCM and the networks, which it lacks, on the held-out splits of
    default members; and defaults on the untouched sets.
    """
    there = [results["untouched"]] if "untouched" in results else []
    held_out = pooled(results)
    held_out = held_out[held_out["method"].isin(["IGCM", *NETWORKS, "Members, default"])]
    held_out = held_out.replace({"method": {"Members, default": many_sets.REFERENCE}})
    return pd.concat([finals(results), held_out, *there], ignore_index=True)
