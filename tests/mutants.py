"""Mutation testing: does a test fail when an operator, a number or a condition is changed?

    python tests/mutants.py --each 30 | tee mutants.txt

A random sample of changes of each package is tried. Every mutant has a process of its own, which is
forked after the slow imports, and in which the tests of its package run until one fails: first the
files with most of the names of its module. Those that reach the limit of CPU seconds count as
survived, as "late".
"""

import argparse
import ast
import importlib
import os
import random
import resource
import shutil
import sys
import tempfile
from pathlib import Path

#: Folders of pyro_gcm, and those of tests that are to find their mutants.
PACKAGES = {
    "distributions": ("distributions", "testing"),
    "prediction": ("prediction", "models", "testing"),
    "nets": ("nets", "models", "testing"),
    "inference": ("inference", "testing"),
}
PRELOADED = ("pytest", "torch", "pyro.infer", "pyro.distributions", "scipy.stats", "hypothesis")
PRELOADED += ("pandas", "sklearn", "mpmath")
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


def tests_of(root, package, file):
    """The files of tests of a package, those with most of the names of a module first."""
    body = ast.parse((root / file).read_text()).body
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [Path(file).stem, *(node.name for node in body if isinstance(node, kinds))]

    def mentions(path):
        text = path.read_text()
        return -sum(text.count(name) for name in names)

    every = [p for name in PACKAGES[package] for p in (root / "tests" / name).glob("test_*.py")]
    return [p.relative_to(root).as_posix() for p in sorted(every, key=lambda p: (mentions(p), p))]


def outcome(tree, file, place, tests, limit):
    """killed, survived or late; the test that failed; and the CPU seconds."""
    whole, path = (tree / file).read_text(), tree / file
    mutate(nodes(parsed := ast.parse(whole))[place])
    path.write_text(ast.unparse(ast.fix_missing_locations(parsed)))
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            os.chdir(tree)
            sys.path.insert(0, str(tree))
            os.dup2(os.open(tree / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(1, 2)
            # Modules that are imported here already cannot have their assertions rewritten.
            options = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
            os._exit(int(sys.modules["pytest"].main(["-x", "-q", "-n0", *options, *tests])))
        finally:
            os._exit(70)
    _, status, used = os.wait4(child, 0)
    path.write_text(whole)
    code = os.waitstatus_to_exitcode(status)
    log = (tree / "log").read_text()
    if code not in _RESULTS and code >= 0:
        raise RuntimeError(f"pytest ended with {code}: {log}")
    by = [line for line in log.splitlines() if line.startswith(("FAILED", "ERROR"))]
    result = "killed" if by else _RESULTS.get(code, "late")
    return result, by[0][:200] if by else "", round(used.ru_utime + used.ru_stime, 1)


#: Exit codes of pytest; those of signals are below 0.
_RESULTS = {0: "survived", 1: "killed", 2: "killed"}


def main():
    """Try a sample of mutants of each package, and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=30, help="mutants of a package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds of a mutant")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("pyro_gcm", "tests", "docs"):  # a test runs the stories of a page
            shutil.copytree(root / part, tree / part)
        shutil.copy(root / "pyproject.toml", tree)
        for package in PACKAGES:
            killed, mutants = 0, sample(root, package, arguments.each, arguments.seed)
            for file, place, line, change in mutants:
                tests = tests_of(root, package, file)
                result, by, seconds = outcome(tree, file, place, tests, arguments.limit)
                killed += result == "killed"
                print(f"{file}:{line}", change, result, by, seconds, sep="; ", flush=True)
            print(package, f"{killed} of {len(mutants)} killed", flush=True)


if __name__ == "__main__":
    main()
