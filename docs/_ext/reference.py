"""A page of the reference for each public module, and for each public name.

A module is public if it has `__all__`, and all names in there are. A name that several modules hand
on has one page, under its shortest path; their tables link to it.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

FOLDERS = ("modules", "names")
#: Methods that stand above the others on the page of a model.
FIRST = ("model", "guide", "predict", "surface", "required_revenue", "cost", "cost_posterior")
#: Methods of models that other parts of the library call, and no user.
INTERNAL = {
    "adapt",
    "check_story",
    "drawing",
    "draws_equally",
    "each_block",
    "grid",
    "latent_shapes",
    "latents",
    "map_shape",
    "mapped",
    "noise",
    "observed",
    "plan",
    "prediction_plan",
    "read_rows",
    "response_model",
    "restore_attributes",
    "rows",
    "saved_attributes",
    "show",
    "tells_own_story",
    "trained_parameters",
    "warn_once",
}


def public_modules() -> dict[str, ModuleType]:
    """All modules with `__all__`, by their paths."""
    package = importlib.import_module("pyro_gcm")
    found = {"pyro_gcm": package}
    for info in pkgutil.walk_packages(package.__path__, "pyro_gcm."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                found[info.name] = module
    return found


def public_names() -> dict[str, tuple[str, Any]]:
    """(the path of its page, the object) of every path of a public name that is no module."""
    objects: dict[str, Any] = {}
    for path, module in public_modules().items():
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                objects[f"{path}.{name}"] = value
    pages: dict[tuple[int, str], str] = {}
    for path in sorted(objects, key=lambda path: (path.count("."), not _at_home(path, objects))):
        pages.setdefault((id(objects[path]), path.rpartition(".")[2]), path)
    return {
        path: (pages[id(value), path.rpartition(".")[2]], value) for path, value in objects.items()
    }


def _at_home(path: str, objects: dict[str, Any]) -> bool:
    """Whether the object is defined within the module that its path names."""
    home = getattr(objects[path], "__module__", "")
    return home.startswith(path.rpartition(".")[0])


def first_sentence(name: str, value: Any) -> str:
    """The first sentence of what is said of a name, in one line."""
    text = " ".join(said_of(name, value).split("\n\n")[0].split())
    return escaped(re.split(r"(?<=[.:])\s(?=[A-Z`])", text)[0])


def said_of(name: str, value: Any) -> str:
    """The docstring, or the comment before a constant in the module that has it first."""
    if callable(value) or isinstance(value, ModuleType):
        return inspect.getdoc(value) or ""
    for path, module in sorted(sys.modules.items()):
        if path.startswith("pyro_gcm") and vars(module).get(name) is value:
            comments = ModuleAnalyzer.for_module(path).find_attr_docs()
            if lines := comments.get(("", name)):
                return "\n".join(lines)
    raise ValueError(f"{name} is a public constant without a comment that starts with #:")


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n\n"


def _page(path: str, value: Any) -> str:
    module, _, name = path.rpartition(".")
    if inspect.isclass(value):
        options = "\n   :members:\n   :inherited-members:"
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    elif callable(value):
        kind, options = "autofunction", ""
    else:
        kind, options = "py:data", f"\n   :value: {value!r}\n\n   {escaped(said_of(name, value))}"
    first = ""
    if all(hasattr(value, method) for method in FIRST):
        first = ", ".join(f":py:meth:`~{path}.{method}`" for method in FIRST) + "\n\n"
    return (  # no entry of its own beside every page: there are too many for a list
        f":orphan:\n\n{_title(name)}"
        f":doc:`{module} </docs/reference/modules/{module}>`:"
        f" ``from {module} import {name}``\n\n.. currentmodule:: {module}\n\n{first}"
        f".. {kind}:: {name}{options}\n"
    )


def _module_page(path: str, module: ModuleType, names: dict[str, tuple[str, Any]]) -> str:
    rows = []
    for name in sorted(module.__all__, key=str.lower):
        whole = f"{path}.{name}"
        if whole in names:
            page, value = names[whole]
            link = f":doc:`{name} </docs/reference/names/{page}>`"
        else:
            value = getattr(module, name)
            link = f":doc:`{name} </docs/reference/modules/{whole}>`"
        rows.append(f"   * - {link}\n     - {first_sentence(name, value)}\n")
    table = ".. list-table::\n   :class: names\n\n" + "".join(rows)
    return f"{_title(path)}.. automodule:: {path}\n   :no-members:\n\n{table}"


def write_pages(app: Any) -> None:
    """Write what has changed, and remove pages of names that are gone."""
    folder = Path(app.srcdir) / "docs" / "reference"
    names = public_names()
    pages = {
        folder / "names" / f"{page}.rst": _page(page, value)
        for path, (page, value) in names.items()
        if page == path
    }
    for path, module in public_modules().items():
        pages[folder / "modules" / f"{path}.rst"] = _module_page(path, module, names)
    for part in FOLDERS:
        (folder / part).mkdir(parents=True, exist_ok=True)
        for old in set((folder / part).glob("*.rst")) - set(pages):
            old.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    app.reference_names = names


def skip_of_other_packages(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class inherits from torch, Pyro or scikit-learn."""
    function = member.fget if isinstance(member, property) else member
    function = getattr(function, "__func__", function)
    home = getattr(function, "__module__", None)
    if isinstance(home, str) and not home.startswith("pyro_gcm"):
        return True
    if name in INTERNAL and str(home).startswith("pyro_gcm.models"):
        return True
    return None


def as_plain_text(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings have no emphasis: their stars and bars stand for themselves.

    And `:param a, b:` describes two parameters, not a parameter b of type a.
    """
    literal, before = None, ""  # the indentation of what announced a literal block
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if line.lstrip().startswith(">>>") and not before.strip():
            literal = indent - 1
        elif literal is None:
            if match := re.match(r":param ([^:]*, [^:]*):(.*)", line):
                line = f":param {match[1].replace(', ', ',')}:{match[2]}"
            lines[i] = escaped(line)
            literal = indent if line.endswith("::") else None
        before = line


def escaped(line: str) -> str:
    """With a backslash before what reStructuredText would take for markup, but not in code."""
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def resolve(app: Any, env: Any, node: Any, text: Any) -> Any:
    """A link to the page of a public name that an annotation names by where it is defined."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("pyro_gcm"):
        return None
    try:
        value = importlib.import_module("pkgutil").resolve_name(target)
    except (ImportError, AttributeError):
        return None
    for page, of_page in app.reference_names.values():
        if of_page is value:
            return env.domains["py"].resolve_xref(
                env, node["refdoc"], app.builder, "obj", page, node, text
            )
    return text  # not public: named, without a link


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-skip-member", skip_of_other_packages)
    app.connect("autodoc-process-docstring", as_plain_text)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
