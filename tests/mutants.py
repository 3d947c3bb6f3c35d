"""Mutation testing: does a test fail when an operator, a number or a condition is changed?

    python -m pytest -n0 --dist no --cov --cov-context=test --cov-report= \
        tests/distributions tests/prediction tests/nets tests/inference tests/models
    python tests/mutants.py mutants.csv

The first command notes in `.coverage` which tests run a line, and the second one tries a random
sample of changes of each package. Every change is tried in a process of its own, which is forked
after the slow imports, on the tests in the package's folder that run its line, until one fails. The
table grows with every mutant, and a command that is given again goes on. `--again` tries those that
survived once more, first on the tests that it names, of which `.coverage` knows nothing yet.
"""

import argparse
import ast
import csv
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from coverage import CoverageData

#: Folders of pyro_gcm, and those of tests that are to find their mutants.
PACKAGES = {name: (f"tests/{name}/",) for name in ("distributions", "inference")}
PACKAGES |= {name: (f"tests/{name}/", "tests/models/") for name in ("prediction", "nets")}
PRELOADED = ("pytest", "torch", "pyro.infer", "pyro.distributions", "scipy.stats", "hypothesis")
COLUMNS = ("package", "file", "place", "line", "change", "tests", "result")
_PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
_PAIRS += [(ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)]
_PAIRS += [(ast.BitAnd, ast.BitOr)]
OPERATORS = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
OPERATORS |= {ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.USub: ast.UAdd}
_NAMES = [("amin", "amax"), ("min", "max"), ("any", "all"), ("zeros", "ones"), ("log", "log1p")]
NAMES = {a: b for pair in _NAMES for a, b in (pair, pair[::-1])}


def mutate(node):
    """Change a node; the description, or None for a node that is not changed."""
    before = ast.unparse(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        node.operand = ast.UnaryOp(type(node.op)(), node.operand)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        before, node.test = ast.unparse(node.test), ast.UnaryOp(ast.Not(), node.test)
        return f"not ({before})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        node.attr = NAMES[node.attr]
    else:
        return None
    return f"{before} -> {ast.unparse(node)}"


def nodes(tree):
    """What may be changed: nodes in bodies of functions, but for types and messages of errors."""
    found = []

    def visit(node, inside):
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                told = isinstance(child, ast.Raise | ast.JoinedStr | ast.arguments)
                if isinstance(child, ast.AST) and not told and name not in _LEFT_OUT:
                    found.extend([child] if inside else [])
                    visit(child, inside or isinstance(child, ast.FunctionDef))

    visit(tree, False)
    return [node for node in found if hasattr(node, "lineno")]


_LEFT_OUT = ("annotation", "returns", "decorator_list")


def sample(root, package, count, seed):
    """(file, place among its nodes, line, change) of some mutants of a package."""
    every = []
    for file in sorted((root / "pyro_gcm" / package).glob("*.py")):
        for place, node in enumerate(nodes(ast.parse(file.read_text()))):
            line = node.lineno
            if change := mutate(node):
                every.append((file.relative_to(root).as_posix(), place, line, change))
    return random.Random(seed).sample(every, min(count, len(every)))


def outcome(tree, file, place, tests, limit):
    """killed, survived or timeout."""
    whole, path = (tree / file).read_text(), tree / file
    mutate(nodes(parsed := ast.parse(whole))[place])
    path.write_text(ast.unparse(ast.fix_missing_locations(parsed)))
    child, until = os.fork(), time.monotonic() + limit
    if not child:
        os.setpgid(0, 0)
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly"]
        os._exit(int(sys.modules["pytest"].main([*options, *tests])))
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > until:
            break
        time.sleep(0.05)
    if not done:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    path.write_text(whole)
    return ("killed" if os.waitstatus_to_exitcode(status) else "survived") if done else "timeout"


def main():
    """Try the mutants that the table lacks, or those in it that survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--each", type=int, default=30, help="mutants of a package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=400, help="tests of a mutant")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a mutant")
    parser.add_argument("--again", nargs="*", help="tests to try on those that survived")
    arguments = parser.parse_args()
    root, coverage = Path(__file__).resolve().parents[1], CoverageData()
    coverage.read()
    lines = {Path(f).as_posix(): f for f in coverage.measured_files()}
    rows = []
    if arguments.table.exists():
        rows = list(csv.DictReader(arguments.table.open()))
    known = {(row["file"], int(row["place"])): row for row in rows}
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("pyro_gcm", "tests"):
            shutil.copytree(root / part, tree / part)
        shutil.copy(root / "pyproject.toml", tree)
        for package in PACKAGES:
            for file, place, line, change in sample(root, package, arguments.each, arguments.seed):
                row = known.get((file, place))
                if row and (arguments.again is None or row["result"] != "survived"):
                    continue
                measured = next((f for name, f in lines.items() if name.endswith(file)), "")
                contexts = coverage.contexts_by_lineno(measured).get(line, [])
                own = PACKAGES[package]
                tests = {c.rpartition("|")[0] for c in contexts if c.startswith(own)}
                stem = Path(file).stem
                order = sorted(tests, key=lambda t: (f"test_{stem}" not in t, hash(t)))
                chosen = [*(arguments.again or ()), *order[: arguments.most]]
                result = (
                    outcome(tree, file, place, chosen, arguments.limit) if chosen else "no test"
                )
                found = (package, file, place, line, change, len(tests), result)
                known[file, place] = dict(zip(COLUMNS, found, strict=True))
                with arguments.table.open("w", newline="") as table:
                    writer = csv.DictWriter(table, COLUMNS)
                    writer.writeheader()
                    writer.writerows(known.values())
                print(*found, flush=True)
    for package in PACKAGES:
        results = [row["result"] for row in known.values() if row["package"] == package]
        print(package, f"{sum(r in ('killed', 'timeout') for r in results)} of {len(results)}")


if __name__ == "__main__":
    main()
