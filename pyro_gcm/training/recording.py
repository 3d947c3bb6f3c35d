"""A function of tensors as the list of the operations of torch that it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph


def recorded(function: Callable[..., Any], *examples: Tensor) -> Callable[..., Any]:
    """The function without the overhead of Python's calls, of autograd and of `torch.func`.

    It takes tensors of the shapes, strides, types and device of the examples, draws its random
    numbers anew at every call, and has no gradient.

    :param function: of tensors; it must not decide by their values.
    """
    # Importing it takes as long as a short fit, and its first use a second: torch's compiler.
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        made = make_fx(function)(*examples)
    _simplify(made.graph)
    made.recompile()
    forward: Callable[..., Any] = made.forward
    return forward


def _simplify(graph: Graph) -> None:
    """Leave out operations that return what they are given, a third of all those of `vmap`."""
    aten = torch.ops.aten
    for node in graph.nodes:
        first: Any = node.args[0] if node.args else None
        if node.target in (aten.view.default, aten._unsafe_view.default, aten.expand.default):
            if "val" in first.meta and first.meta["val"].shape == node.meta["val"].shape:
                node.replace_all_uses_with(first)
        elif node.target == aten.transpose.int == first.target and node.args[1:] == first.args[1:]:
            node.replace_all_uses_with(first.args[0])
    graph.eliminate_dead_code()
