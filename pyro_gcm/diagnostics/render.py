"""The graph of a model, read off the Pyro program that runs (paper, Figures 4 and 5)."""

from __future__ import annotations

import importlib.util
import inspect
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyro
import pyro.poutine as poutine
import torch
from pyro.infer.inspect import TrackProvenance, site_is_deterministic
from pyro.ops.provenance import get_provenance, track_provenance
from pyro.poutine.messenger import unwrap
from pyro.poutine.util import site_is_subsample
from torch import Tensor, nn

from pyro_gcm._utils.evaluating import evaluating
from pyro_gcm._utils.options import checks, mapping, output_of
from pyro_gcm._utils.process_state import exclusively
from pyro_gcm._utils.validation import HasSizes, one_of, shown
from pyro_gcm._utils.writing import write_file
from pyro_gcm.inference import conditional

if TYPE_CHECKING:
    import graphviz

VIEWS = ("model", "conditional", "guide")
_SOURCES = (".dot", ".gv")
_IMAGES = (".svg", ".pdf", ".png")
#: The order event: from the costs, and from what they are compared with, to the outcome.
_ORDER_EVENT = {("c", "y"), ("r", "y"), ("k", "y")}


@checks(model_kwargs=mapping, path=output_of)
def render_model(
    model: Callable[..., Any] | nn.Module,
    *,
    view: str = "model",
    model_args: tuple[Any, ...] | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    path: str | PathLike[str] | None = None,
) -> graphviz.Digraph | str:
    """Draw the graph of a model as the paper does, from the program itself.

    The arrows are found by tracking which values the density of every site reads. Shaded circles
    are given (observed sites, and tensors with which the program is called), white ones are latent,
    dashed ones deterministic. A box is a plate, and thick arrows to y are the order event. The
    figures of the paper are those of prior "standard", and Figure 5 lacks the arrow k -> x of
    p(x|z, k). Parameters, Pyro's store and the random generators are left unchanged.

    :param model: a `GCM`, an `IGCM`, or any Pyro program.
    :param view: "model" is the explicit program, "conditional" what `inference.conditional` makes
        of it (p(y | x, r), the costs integrated out), "guide" the guide, its arrows dashed.
    :param model_args: arguments of the program; `model_kwargs`: its keyword arguments. By default
        two rows with x = 0, r = 0.5, y = 0 and 1 for a model with `x_dim` and `r_dim`.
    :param path: file to write as well: .dot or .gv, or an image (.svg, .pdf, .png), which needs the
        program `dot` of Graphviz.
    :returns: a `graphviz.Digraph`, which notebooks show as a picture, where the package `graphviz`
        and the program `dot` are installed; otherwise its DOT source as a string.
    :raises ValueError: for an unknown view or file ending, arguments that do not fit the program,
        or a guide without sites.
    :raises RuntimeError: for an image without `dot`.

    >>> from pyro_gcm import GCM
    >>> print(render_model(GCM(2, 1), view="conditional"))
    digraph {
      node [shape=circle, fillcolor=gray90]
      subgraph cluster_0 {
        label="data" labeljust=r labelloc=b
        "x" [style=filled]
        "r" [style=filled]
        "z"
        "y" [style=filled]
      }
      "x" -> "z"
      "r" -> "y" [penwidth=3]
      "z" -> "y"
    }
    <BLANKLINE>
    """
    one_of("view", view, VIEWS)
    if model_args is not None and not isinstance(model_args, tuple | list):
        raise TypeError(f"model_args must be a tuple of arguments, got {shown(model_args)}")
    target = None if path is None else _checked_path(Path(path))
    program, arguments = _call(model, view, model_args, dict(model_kwargs or {}))
    owner = _owner(model)
    with evaluating(owner) if isinstance(owner, nn.Module) else nullcontext():
        nodes = _nodes(program, arguments)
    body = _body(nodes, "style=dashed" if view == "guide" else None)
    source = "digraph {\n" + "".join(body) + "}\n"
    dot = shutil.which("dot")
    if target is not None and target.suffix in _SOURCES:
        write_file(target, source.encode())
    elif target is not None:
        to_image = [str(dot), f"-T{target.suffix[1:]}"]
        image = subprocess.run(to_image, input=source.encode(), stdout=subprocess.PIPE, check=True)
        write_file(target, image.stdout)
    if dot is None or importlib.util.find_spec("graphviz") is None:
        return source
    import graphviz

    return graphviz.Digraph(body=body)


def _checked_path(path: Path) -> Path:
    if path.suffix not in (*_SOURCES, *_IMAGES):
        raise ValueError(f"path must end in one of {[*_SOURCES, *_IMAGES]}, got {str(path)!r}")
    if path.suffix in _IMAGES and shutil.which("dot") is None:
        raise RuntimeError(
            f"path={str(path)!r} needs the program 'dot', which is not on the PATH: install "
            "Graphviz (https://graphviz.org/download, or the system package 'graphviz'), or write "
            "a .dot file"
        )
    return path


class _Node(NamedTuple):
    """One circle of the graph."""

    parents: frozenset[str]  # includes parameters of the store, which are not drawn
    plates: tuple[str, ...]  # the outermost first
    style: str | None


def _call(
    model: Callable[..., Any] | nn.Module,
    view: str,
    args: tuple[Any, ...] | None,
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], inspect.BoundArguments]:
    """The program of a view, and its arguments by name."""
    program = getattr(model, "guide", None) if view == "guide" else getattr(model, "model", model)
    if not callable(program):
        wanted = "an object with a guide" if view == "guide" else "a Pyro program"
        raise ValueError(f"model must be {wanted} for view={view!r}, got {type(model).__name__}")
    if args is None:
        owner = _owner(model)
        sized = hasattr(owner, "x_dim") and hasattr(owner, "r_dim")
        args = _rows(owner) if sized and not kwargs else ()
    try:
        bare = _bare(program)  # the signature of a module is that of its forward
        arguments = inspect.signature(getattr(bare, "forward", bare)).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"model_args do not fit the program: {error}") from error
    return conditional(program) if view == "conditional" else program, arguments


def _bare(program: Any) -> Any:
    """The function inside Pyro's handlers, which has the names of the arguments."""
    handled = isinstance(program, partial) and type(program) is not partial
    return unwrap(program) if handled else program


def _owner(model: Callable[..., Any] | nn.Module) -> Any:
    """The model of which `model` is the program, or `model` itself."""
    bare = _bare(model)
    return getattr(bare, "__self__", bare)


def _rows(model: HasSizes) -> tuple[Tensor, Tensor, Tensor]:
    """Two rows x, r and y that every response takes, quantile levels included."""
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    like = next(parameters, torch.zeros(())).detach()
    x, r = like.new_zeros(2, model.x_dim), like.new_full((2, model.r_dim), 0.5)
    return x, r, like.new_tensor([0.0, 1.0])


def _nodes(program: Callable[..., Any], arguments: inspect.BoundArguments) -> dict[str, _Node]:
    """The sites of the program in their order, after the inputs that they read."""
    given = {name: of for name, of in arguments.arguments.items() if isinstance(of, Tensor)}
    with _no_traces_left({tensor.device for tensor in given.values() if tensor.is_cuda}):
        drawn = poutine.trace(program).get_trace(*arguments.args, **arguments.kwargs)
        for name, tensor in given.items():
            arguments.arguments[name] = track_provenance(tensor, frozenset({name}))
        # The same draws again: Laplace and others cannot be drawn from while tracked.
        with (
            pyro.validation_enabled(False),
            poutine.replay(trace=drawn),
            TrackProvenance(include_deterministic=True),
        ):
            trace: Any = poutine.trace(program).get_trace(*arguments.args, **arguments.kwargs)
            sites = [of for of in trace.nodes.values() if of["type"] == "sample"]
            sites = [site for site in sites if not site_is_subsample(site)]
            nodes = {site["name"]: _site_node(site, given) for site in sites}
    if not nodes:
        raise ValueError("model has no sample sites, so that there is nothing to draw")
    return {**_inputs(given, nodes), **nodes}


@contextmanager
def _no_traces_left(devices: set[torch.device]) -> Iterator[None]:
    store = pyro.get_param_store()
    with (
        exclusively(),
        store.scope(store.get_state()),
        torch.random.fork_rng(devices=list(devices)),
        torch.no_grad(),
    ):
        yield


def _site_node(site: Any, given: Collection[str]) -> _Node:
    name, fn = site["name"], site["fn"]
    style = "filled" if site["is_observed"] else None
    if site_is_deterministic(site):
        fn = fn.base_dist  # without the mask, behind which its density reads nothing
        style = "filled" if name in given else "dashed"
    parents = get_provenance(fn.log_prob(site["value"])) - {name}
    return _Node(parents, tuple(frame.name for frame in site["cond_indep_stack"]), style)


def _inputs(given: Collection[str], nodes: dict[str, _Node]) -> dict[str, _Node]:
    """Tensors with which the program was called, that are no sites but are read by one."""
    inputs = {}
    for name in given:
        children = [node.plates for node in nodes.values() if name in node.parents]
        if name not in nodes and children:
            # Rows of data are in all plates that the sites which read them share.
            shared = tuple(plate for plate in children[0] if all(plate in of for of in children))
            inputs[name] = _Node(frozenset(), shared, "filled")
    return inputs


def _body(nodes: dict[str, _Node], edge_style: str | None) -> list[str]:
    """Lines of DOT source between the braces."""
    lines = ["node [shape=circle, fillcolor=gray90]", *_boxes(nodes, (), iter(range(len(nodes))))]
    for name, node in nodes.items():
        for parent in nodes:
            if parent in node.parents:
                styles = [edge_style] if edge_style else []
                styles += ["penwidth=3"] if (parent, name) in _ORDER_EVENT else []
                options = f" [{', '.join(styles)}]" if styles else ""
                lines.append(f"{_quoted(parent)} -> {_quoted(name)}{options}")
    return [f"  {line}\n" for line in lines]


def _boxes(nodes: dict[str, _Node], path: tuple[str, ...], numbers: Iterator[int]) -> list[str]:
    """Nodes in exactly the plates `path`, followed by the boxes inside them."""
    depth = len(path)
    lines = [
        _quoted(name) + (f" [style={node.style}]" if node.style else "")
        for name, node in nodes.items()
        if node.plates == path
    ]
    below = [node.plates for node in nodes.values() if node.plates[:depth] == path]
    for plate in dict.fromkeys(plates[depth] for plates in below if len(plates) > depth):
        lines.append(f"subgraph cluster_{next(numbers)} {{")
        lines.append(f"  label={_quoted(plate)} labeljust=r labelloc=b")
        lines += [f"  {line}" for line in _boxes(nodes, (*path, plate), numbers)]
        lines.append("}")
    return lines


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
