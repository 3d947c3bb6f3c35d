"""The graph of a model, read off the Pyro program that runs (paper, Figures 4 and 5)."""

from __future__ import annotations

import importlib.util
import inspect
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyro
import pyro.poutine as poutine
import torch
from pyro.infer.inspect import generate_graph_specification, get_model_relations, render_graph
from pyro.ops.provenance import track_provenance
from pyro.poutine.messenger import unwrap
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
) -> graphviz.Digraph:
    """Draw the graph of a model as the paper does, from the program itself.

    This is `pyro.render_model`, which tracks the values that the density of every site reads, for
    tensors with which the program is called as well. Shaded circles are given (observed sites and
    those tensors), white ones are latent, dashed ones deterministic. A box is a plate, and thick
    arrows to y are the order event. The figures of the paper are those of prior "standard", and
    Figure 5 lacks the arrow k -> x of p(x|z, k). Parameters, Pyro's store and the random generators
    are left unchanged.

    :param model: a `GCM`, an `IGCM`, or any Pyro program.
    :param view: "model" is the explicit program, "conditional" what `inference.conditional` makes
        of it (p(y | x, r), the costs integrated out), "guide" the guide, its arrows dashed.
    :param model_args: arguments of the program; `model_kwargs`: its keyword arguments. By default
        two rows with x = 0, r = 0.5, y = 0 and 1 for a model with `x_dim` and `r_dim`.
    :param path: file to write as well: .dot or .gv, or an image (.svg, .pdf, .png), which needs the
        program `dot` of Graphviz.
    :returns: a graph, whose `source` is DOT, and which notebooks show as a picture where the
        program `dot` is installed.
    :raises ValueError: for an unknown view or file ending, arguments that do not fit the program,
        or a guide without sites.
    :raises ImportError: without the package `graphviz`.
    :raises RuntimeError: for an image without `dot`.

    >>> from pyro_gcm import GCM
    >>> print(render_model(GCM(2, 1), view="conditional").source.expandtabs(2))
    digraph {
      node [height=0.6 width=0.6]
      edge [style=solid]
      subgraph cluster_data {
        label=data labeljust=r labelloc=b
        z [label=z fillcolor=white shape=ellipse style=filled]
        y [label=y fillcolor=gray shape=ellipse style=filled]
        x [label=x fillcolor=gray shape=ellipse style=filled]
        r [label=r fillcolor=gray shape=ellipse style=filled]
      }
      x -> z
      r -> y [penwidth=3]
      z -> y
    }
    <BLANKLINE>
    """
    one_of("view", view, VIEWS)
    if model_args is not None and not isinstance(model_args, tuple | list):
        raise TypeError(f"model_args must be a tuple of arguments, got {shown(model_args)}")
    target = None if path is None else _checked_path(Path(path))
    if importlib.util.find_spec("graphviz") is None:
        raise ImportError(
            "render_model needs the package graphviz: pip install 'pyro-gcm[graphviz]' "
            "(and, for pictures, the program 'dot': https://graphviz.org/download)"
        )
    program, arguments = _call(model, view, model_args, dict(model_kwargs or {}))
    owner = _owner(model)
    with evaluating(owner) if isinstance(owner, nn.Module) else nullcontext():
        specification = generate_graph_specification(_relations(program, arguments))
    edges: list[tuple[str, str]] = specification.pop("edge_list")
    graph = render_graph({**specification, "edge_list": []})
    graph.node_attr.update(width="0.6", height="0.6")  # makes circles of Pyro's ellipses
    graph.edge_attr.update(style="dashed" if view == "guide" else "solid")
    for edge in edges:
        graph.edge(*edge, penwidth="3" if edge in _ORDER_EVENT else None)
    if target is not None:
        image = target.suffix in _IMAGES
        write_file(target, graph.pipe(target.suffix[1:]) if image else graph.source.encode())
    return graph


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


def _relations(program: Callable[..., Any], arguments: inspect.BoundArguments) -> dict[str, Any]:
    """Return Pyro's dependencies of the sites, with tensor arguments as observed sites."""
    given = {name: of for name, of in arguments.arguments.items() if isinstance(of, Tensor)}
    store = pyro.get_param_store()
    with exclusively(), store.scope(store.get_state()), torch.random.fork_rng():
        with torch.no_grad():
            drawn = poutine.trace(program).get_trace(*arguments.args, **arguments.kwargs)
        inputs = given.keys() - drawn.nodes

        def tracked() -> None:
            for name, tensor in given.items():
                arguments.arguments[name] = (
                    pyro.deterministic(name, tensor)
                    if name in inputs
                    else track_provenance(tensor, frozenset({name}))
                )
            # The same draws again: Laplace and others cannot be drawn from while tracked.
            poutine.replay(program, trace=drawn)(*arguments.args, **arguments.kwargs)

        relations = get_model_relations(tracked, include_deterministic=True)
    reads: dict[str, list[str]] = relations["sample_sample"]
    kinds: dict[str, str] = relations["sample_dist"]
    for name in given:
        kinds[name] = "Given"  # not dashed
        readers = {site for site, read in reads.items() if name in read}
        if name in inputs and not readers:
            del reads[name]
        elif name in inputs:  # rows of data are in all plates that the sites which read them share
            for sites in relations["plate_sample"].values():
                sites += [name] if readers <= set(sites) else []
    # Pyro shades deterministic sites as well.
    relations["observed"] = [of for of in relations["observed"] if kinds[of] != "Deterministic"]
    if not reads:
        raise ValueError("model has no sample sites, so that there is nothing to draw")
    return relations
