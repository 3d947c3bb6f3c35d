"""What a study is: methods on data sets over splits or simulations, in one table with a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import product
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from reproduce.runs import (
    Fit,
    Refused,
    Settings,
    add_run_arguments,
    as_json,
    positive_count,
    run_fits,
)

Splits = Callable[[int], Iterable[tuple[str, int]]]


def numbered(count: int, first: int = 0) -> list[tuple[str, int]]:
    """Splits "0", "1", ... or from another number on, with seeds of the same numbers."""
    return [(str(number), number) for number in range(first, first + count)]


def named(split: str) -> Splits:
    """One split, or none, with seeds 0, 1, ..."""
    return lambda count: ((split, seed) for seed in range(count))


def but_the_seed(fit: Fit) -> Fit:
    """What fits have in common whose seeds are trained side by side, ten at a time.

    The name of a split may be the seed of what is simulated or drawn.
    """
    return replace(fit, split="", seed=fit.seed // 10)


@dataclass(frozen=True)
class Study:
    """Every method on every data set, over `count` splits; `main` runs what the table lacks.

    :param name: of the command.
    :param about: what is asked; the first line is that of the list of studies.
    :param datasets: names; `methods`: name -> whatever `run` needs for it.
    :param run: function (fit, device=) -> scores, with "seconds" and "epochs" among them.
    :param page: the section of the report with its tables, or a function (rows) -> text.
    :param count: how many splits, as the option `counted` has it; `quick_count` with --quick.
    :param protocol: "held-out", "simulated", ...; `variant` of the data sets.
    :param splits: function (count) -> names and seeds of the splits.
    :param settings: function (data set, method) -> what a fit depends on beside its seed: one or
        several, of which each is a fit.
    :param version: function (method) -> what is added to that, and needs packages to be known.
    :param cells: function (fit) -> the fits that stand in its place: several, whose settings or
        names differ, or none.
    :param quick: what --quick adds to that.
    :param jobs: processes by default, where that is not one a core: 1 where times are measured.
    :param file: of the results, where it has not the name; `{dataset}` stands for the data set.
    :param together: what is the same of fits that one call of `run` takes, as of `run_fits`.
    :param open: whether data sets and methods may also be names "module:function" of the user's.
    """

    name: str
    about: str
    datasets: Iterable[str]
    methods: Mapping[str, Any]
    run: Callable[..., Any]
    page: str | Callable[[pd.DataFrame], str]
    _: KW_ONLY
    count: int = 10
    counted: str = "splits"
    quick_count: int = 1
    protocol: str = "held-out"
    variant: str = "default"
    splits: Splits = numbered
    settings: Callable[[str, str], Iterable[Settings]] = lambda dataset, method: [{}]
    version: Callable[[str], Settings] = lambda method: {}
    cells: Callable[[Fit], Iterable[Fit]] = lambda fit: [fit]
    quick: Settings = field(default_factory=dict)
    jobs: int | None = None
    file: str = ""
    together: Callable[[Fit], Any] | None = None
    open: bool = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options of `python -m reproduce NAME`."""
        for option in ("datasets", "methods"):
            known = ", ".join(getattr(self, option))
            parser.add_argument(f"--{option}", nargs="+", help=f"all by default: {known}")
        parser.add_argument(f"--{self.counted}", type=positive_count, default=self.count)
        add_run_arguments(parser)
        if self.jobs is not None:
            parser.set_defaults(jobs=self.jobs)

    def fits(self, arguments: argparse.Namespace) -> dict[str, list[Fit]]:
        """Name of each file of results -> all fits that are asked for, those of a split together.

        :raises Refused: for a data set or a method that the study lacks, or cannot import.
        :raises ImportError: if a package is not there.
        """
        for option in ("datasets", "methods"):
            known = list(getattr(self, option))
            for name in {*(getattr(arguments, option) or ())}.difference(known):
                if not (self.open and ":" in name):
                    has = f"protocol {self.protocol} has {', '.join(known)}"
                    raise Refused(f"--{option} {name}: {has}")
                try:
                    resolve_name(name)
                except (ImportError, AttributeError, ValueError) as error:
                    raise Refused(f"{name} cannot be imported: {error}") from error
        versions = {method: self.version(method) for method in arguments.methods or self.methods}
        splits = [*self.splits(getattr(arguments, self.counted))]
        asked = arguments.datasets or self.datasets, versions
        if arguments.quick:
            return self._files(*asked, splits[: self.quick_count], self.quick)
        return self._files(*asked, splits)

    def planned(self) -> dict[str, int]:
        """Name of each file of results -> its fits at the defaults of the command."""
        versions = dict[str, Settings]((method, {}) for method in self.methods)
        files = self._files(self.datasets, versions, [*self.splits(self.count)])
        return {file: len(fits) for file, fits in files.items()}

    def _files(
        self,
        datasets: Iterable[str],
        versions: Mapping[str, Settings],
        splits: list[tuple[str, int]],
        more: Settings | None = None,
    ) -> dict[str, list[Fit]]:
        files: dict[str, list[Fit]] = {}
        for name in datasets:
            fits = files.setdefault((self.file or self.name).format(dataset=name), [])
            settings = {method: [*self.settings(name, method)] for method in versions}
            for (split, seed), method in product(splits, versions):
                for options in settings[method]:
                    known = self.name, name, self.variant, self.protocol, split, seed, method
                    for cell in self.cells(Fit(*known, as_json({**options, **versions[method]}))):
                        settled = as_json({**cell.options, **(more or {})})
                        fits.append(replace(cell, settings=settled))
        return files

    def main(self, arguments: argparse.Namespace) -> None:
        """Run the fits that the tables lack, and print them as the report does."""
        folder, tables = arguments.output, dict[str, pd.DataFrame]()
        for file, fits in self.fits(arguments).items():
            more = self.run, arguments, self.together
            tables[file] = run_fits(folder / f"{file}.csv", fits, *more)
        print_tables(self.page, tables)
        print(f"\nwritten: {', '.join(f'{folder / file}.csv' for file in tables)}")


def print_tables(
    page: str | Callable[[pd.DataFrame], str], tables: Mapping[str, pd.DataFrame]
) -> None:
    """Print the tables of a section of the report, or what a function makes of the rows."""
    from reproduce.report import section  # which knows all studies

    whole = page(pd.concat(tables.values())) if callable(page) else section(tables, page)
    print(f"\n{whole}")


@dataclass(frozen=True)
class Protocols:
    """Studies of one command, of which an option names one; the first by default."""

    option: str
    studies: Mapping[str, Study]

    @property
    def about(self) -> str:
        """That of all of them."""
        return next(iter(self.studies.values())).about

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options of `python -m reproduce NAME`."""
        names = list(self.studies)
        parser.add_argument(f"--{self.option}", choices=names, default=names[0])
        self.studies[names[0]].add_arguments(parser)

    def chosen(self, arguments: argparse.Namespace) -> Study:
        """The study that is asked for."""
        return self.studies[getattr(arguments, self.option)]

    def main(self, arguments: argparse.Namespace) -> None:
        """Run one of them."""
        self.chosen(arguments).main(arguments)
