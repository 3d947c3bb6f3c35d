"""What a study is: methods on data sets over splits or simulations, in one table with a command."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from reproduce.arguments import Refused, positive_count
from reproduce.runs import Fit, Settings, add_run_arguments, as_json, run_fits


def numbered(count: int) -> Iterable[tuple[str, int]]:
    """Splits "0", "1", ... with seeds of the same numbers."""
    return ((str(at), at) for at in range(count))


@dataclass(frozen=True)
class Study:
    """Every method on every data set, over `count` splits; `main` runs what the table lacks.

    :param name: of the command, and of the CSV file of the results.
    :param about: what is asked; the first line is that of the list of studies.
    :param datasets: name -> title.
    :param methods: name -> whatever `run` needs for it.
    :param run: function (fit, device=) -> scores, with "seconds" and "epochs" among them.
    :param report: function (rows of the table) -> text.
    :param count: how many splits, as the option `counted` has it; `quick_count` with --quick.
    :param protocol: "held-out", "simulated", ...; `variant` of the data sets.
    :param splits: function (count) -> names and seeds of the splits.
    :param settings: function (method) -> what the fit depends on beside its seed.
    :param cells: function (fit) -> the fits that stand in its place: several, whose settings or
        names differ, or none.
    :param quick: what --quick adds to that.
    :param needs: modules that have to be there -> the extra that brings them.
    :param left_out: (data set, method) pairs that have no meaning.
    :param jobs: processes by default, where that is not one a core: 1 where times are measured.
    :param file_a_dataset: whether each data set has a file of its own.
    :param together: what is the same of fits that one call of `run` takes, as of `run_fits`.
    """

    name: str
    about: str
    datasets: Mapping[str, str]
    methods: Mapping[str, Any]
    run: Callable[..., Any]
    report: Callable[[pd.DataFrame], str]
    _: KW_ONLY
    count: int = 10
    counted: str = "splits"
    quick_count: int = 1
    protocol: str = "held-out"
    variant: str = "default"
    splits: Callable[[int], Iterable[tuple[str, int]]] = numbered
    settings: Callable[[str], Settings] = lambda method: {}
    cells: Callable[[Fit], Iterable[Fit]] = lambda fit: [fit]
    quick: Settings = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    left_out: Iterable[tuple[str, str]] = ()
    jobs: int | None = None
    file_a_dataset: bool = False
    together: Callable[[Fit], Any] | None = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options of `python -m reproduce NAME`."""
        for option, known in (("datasets", self.datasets), ("methods", self.methods)):
            parser.add_argument(f"--{option}", nargs="+", choices=list(known), default=list(known))
        parser.add_argument(f"--{self.counted}", type=positive_count, default=self.count)
        add_run_arguments(parser)
        if self.jobs is not None:
            parser.set_defaults(jobs=self.jobs)

    def fits(self, arguments: argparse.Namespace) -> list[Fit]:
        """All that are asked for, those of a split together."""
        splits, added = [*self.splits(getattr(arguments, self.counted))], {}
        if arguments.quick:
            splits, added = splits[: self.quick_count], self.quick
        settings = {name: self.settings(name) for name in arguments.methods}
        return self._fits(arguments.datasets, settings, splits, added)

    def planned(self) -> dict[str, int]:
        """Name of each file of results -> its fits at the defaults of the command."""
        settings: dict[str, Settings] = {name: {} for name in self.methods}
        fits = self._fits(self.datasets, settings, [*self.splits(self.count)], {})
        return dict(Counter(self._file(fit.dataset) for fit in fits))

    def _fits(
        self,
        datasets: Iterable[str],
        settings: Mapping[str, Settings],
        splits: list[tuple[str, int]],
        added: Settings,
    ) -> list[Fit]:
        fits = (
            Fit(self.name, name, self.variant, self.protocol, split, seed, method, as_json(own))
            for name in datasets
            for split, seed in splits
            for method, own in settings.items()
            if (name, method) not in self.left_out
        )
        cells = (cell for fit in fits for cell in self.cells(fit))
        return [replace(cell, settings=as_json({**cell.options, **added})) for cell in cells]

    def _file(self, dataset: str) -> str:
        return f"{self.name}_{dataset}" if self.file_a_dataset else self.name

    def main(self, arguments: argparse.Namespace) -> None:
        """Run the fits that the tables lack, and print them.

        :raises Refused: if a package is not there.
        """
        try:
            for module in self.needs:
                import_module(module)
            files: dict[Path, list[Fit]] = {}
            for fit in self.fits(arguments):
                path = arguments.output / f"{self._file(fit.dataset)}.csv"
                files.setdefault(path, []).append(fit)
            tables = [
                run_fits(path, fits, self.run, arguments, self.together)
                for path, fits in files.items()
            ]
        except ImportError as error:
            extra = self.needs.get(str(error.name), "boosting")
            raise Refused(f"{error}: pip install pyro-gcm[{extra}]") from error
        print(f"\n{self.report(pd.concat(tables, ignore_index=True))}")
        print(f"\nwritten: {', '.join(map(str, files))}")


def each(
    titles: Mapping[str, str], *reports: Callable[[pd.DataFrame, str], str]
) -> Callable[[pd.DataFrame], str]:
    """A report of one data set after the other, from those of one (rows, its name)."""

    def report(table: pd.DataFrame) -> str:
        parts = []
        for name in titles:
            if name in set(table["dataset"]):
                parts += [titles[name], *(of_one(table, name) for of_one in reports)]
        return "\n\n".join(filter(None, parts))

    return report
