"""Shared by all tests: one thread a process, the same draws at every run, parts of long tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import other_processor
import pytest

# `--doctest-modules` would import every conftest.py a second time, under the same name.
collect_ignore_glob = ["*conftest.py"]

#: More workers than this cost more in imports than they save.
MOST_WORKERS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that choose a processor, and which cases of the tests marked ``long`` run."""
    other_processor.pytest_addoption(parser)
    parser.getgroup("long tests").addoption(
        "--long",
        choices=("part", "all"),
        default="part",
        help="cases of the tests marked long: those that their marks keep (default), or all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make torch round as on the processor that is asked for, in every worker."""
    other_processor.pytest_configure(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which of the long tests run, and on which processor."""
    part = f"long tests: {config.getoption('--long')} of their cases (--long all runs all)"
    return [part, *other_processor.pytest_report_header(config)]


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the same part of the cases of every long test at every run.

    ``@pytest.mark.long(keep=("adult", "blog"))`` keeps the cases with these ids, a number as many
    cases at equal distances, and no argument one in ten. ``--long all``, or a test named on the
    command line (``file::test``), runs all. Those beyond the part run without coverage, which takes
    a third of their time.
    """
    for item in items:
        if item.nodeid.startswith("tests/reproduce/"):  # coverage is of pyro_gcm, and takes time
            item.add_marker("no_cover")
    if any("::" in arg for arg in config.args):
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    dropped = set[pytest.Item]()
    for name, of_test in cases.items():
        marker = of_test[0].get_closest_marker("long")
        keep = marker.kwargs.get("keep", len(of_test) // 10) if marker else 0
        if isinstance(keep, int):
            kept = {len(of_test) * i // keep for i in range(keep)}
            beyond = [item for i, item in enumerate(of_test) if i not in kept]
        else:
            ids = [f"{name}[{case}]" for case in keep]
            beyond = [item for item in of_test if item.nodeid not in ids]
            if len(of_test) - len(beyond) < len(ids) and not config.option.keyword:
                raise pytest.UsageError(f"{name} has no case for some of keep={keep}")
        for item in beyond:
            item.add_marker("no_cover")  # of pytest-cov
        dropped.update(beyond if config.getoption("--long") == "part" else [])
    config.hook.pytest_deselected(items=list(dropped))
    items[:] = [item for item in items if item not in dropped]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make warnings errors, but not those of other people's plugins before the first test."""
    known = list(session.config.getini("filterwarnings"))
    for line in ("error", *known):  # the last one that fits decides
        session.config.addinivalue_line("filterwarnings", line)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Workers for ``-n auto``: one for each core, and none where only files are asked for."""
    if all(Path(arg.partition("::")[0]).is_file() for arg in config.args):
        return 0
    import joblib

    return min(int(joblib.cpu_count()), MOST_WORKERS)


@pytest.fixture(autouse=True, scope="session")
def one_thread_a_process() -> None:
    """torch's threads would wait for the other workers, which have the other cores.

    The library does so by itself. This is for what tests compute, and is no variable of the
    environment, so that the programs that tests start have the number that they have for users.
    """
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """The same draws at every run and in any order of the tests, and an empty parameter store."""
    import pyro
    import torch

    # Without a GPU, `torch.manual_seed` keeps a traceback for every kind of device that may come.
    seeded = torch.cuda.is_available() or torch.backends.mps.is_available()
    seed = torch.manual_seed if seeded else torch.default_generator.manual_seed
    with torch.random.fork_rng(), pyro.get_param_store().scope():
        seed(20250721)
        yield
