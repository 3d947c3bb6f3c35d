"""Random numbers of a part of a batch that are those of the whole batch.

A process that computes some rows of a batch draws for all of them and keeps its own, so that every
process consumes as much of its generator as one alone would, and a row has the same noise however
many processes there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Functions of torch that fill a tensor of a size, of the form of a tensor, or a tensor itself.
#: With the place of the size among the arguments.
_OF_SIZE = {"rand": 0, "randn": 0, "randint": -1, "normal": 2}
_LIKE = ("rand_like", "randn_like", "randint_like")
_FILLS = ("normal_", "uniform_", "exponential_", "cauchy_", "random_")
#: Those whose draws depend on parameters of the rows, or that draw a number of times that does.
_OTHERS = (
    *("_standard_gamma", "_sample_dirichlet", "multinomial", "poisson", "binomial"),
    *("bernoulli", "bernoulli_", "geometric_", "log_normal_", "rrelu", "gumbel_softmax"),
    *("alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("feature_dropout", "scaled_dot_product_attention", "multi_head_attention_forward"),
    *("rnn_tanh", "rnn_relu", "gru", "lstm"),
)
_MODES = threading.local()


class SharedDraws(TorchFunctionMode):
    """Inside, tensors of random numbers for some rows are parts of those for all rows.

    The dimension of the rows is the one that a caller names (`rows_along`), else the only one of
    their number, else the last but one. What cannot be drawn for rows of other processes (discrete
    and gamma variates, dropout of whole channels or inside recurrent layers) comes from a generator
    of this process: it has the right distribution, but depends on the number of processes.

    :param part: the rows of this process.
    :param rows: of the whole batch.
    :param rank: number of this process.
    """

    def __init__(self, part: slice, rows: int, rank: int) -> None:
        super().__init__()
        self.part, self.rows, self.rank = part, rows, rank
        self.known: int | None = None

    def __enter__(self) -> SharedDraws:
        self.outer, _MODES.current = getattr(_MODES, "current", None), self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _MODES.current = self.outer
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if not args and name not in _OF_SIZE:
            return func(*args, **kwargs)
        if name in _LIKE:
            own, *others = args
            return self._filled(own, lambda whole: func(whole, *others, **kwargs))
        if name in _FILLS:
            own, *others = args
            return own.copy_(self._filled(own, lambda whole: func(whole, *others, **kwargs)))
        if name == "normal" and (found := _normal(*args, **kwargs)) is not None:
            mean, spread, generator = found
            return mean + self._filled(mean, lambda w: w.normal_(generator=generator)) * spread
        if name in _OF_SIZE:
            return self._of_size(func, args, kwargs, _OF_SIZE[name])
        if name == "dropout":
            return self._dropout(func, *args, **kwargs)
        if name in _OTHERS:
            return self._apart(func, args, kwargs)
        return func(*args, **kwargs)

    def _dropout(
        self, func: Any, given: Tensor, p: float = 0.5, training: bool = True, *args: Any, **kw: Any
    ) -> Any:
        if "train" in kw:
            training = kw.pop("train")
        if not training or p == 0.0:
            return func(given, p, training, *args, **kw)
        if args or kw.get("inplace"):
            return self._apart(func, (given, p, training, *args), kw)
        kept = self._filled(given, lambda whole: whole.bernoulli_(1.0 - p))
        return given * kept.div_(1.0 - p)

    def _of_size(self, func: Any, args: Any, kwargs: Any, at: int) -> Any:
        named = "size" in kwargs
        size = kwargs["size"] if named else args[at] if args and not _all_ints(args) else args
        if isinstance(size, int):
            return func(*args, **kwargs)
        dim = self._dim(tuple(size))
        if dim is None:
            return func(*args, **kwargs)
        whole = [*size[:dim], self.rows, *size[dim + 1 :]]
        if named:
            drawn = func(*args, **{**kwargs, "size": whole})
        else:
            drawn = func(*(args[:at] if at else ()), whole, **kwargs)
        return drawn.narrow(dim, self.part.start, size[dim])

    def _filled(self, own: Tensor, fill: Callable[[Tensor], Tensor]) -> Tensor:
        """A new tensor of the form of `own`, filled for all rows and cut to these."""
        dim = self._dim(tuple(own.shape))
        with torch.no_grad():
            if dim is None:
                return fill(torch.empty_like(own))
            shape = (*own.shape[:dim], self.rows, *own.shape[dim + 1 :])
            strides = own.stride()
            layout = sorted(range(own.dim()), key=lambda d: (-strides[d], d))
            whole = torch.empty_permuted(shape, layout, dtype=own.dtype, device=own.device)
            return fill(whole).narrow(dim, self.part.start, own.shape[dim])

    def _dim(self, shape: tuple[int, ...]) -> int | None:
        own = self.part.stop - self.part.start
        if self.known is not None and self.known < len(shape) and shape[self.known] == own:
            return self.known
        found = [dim for dim, size in enumerate(shape) if size == own]
        if len(found) > 1 and len(shape) - 2 in found:
            return len(shape) - 2
        return found[0] if found else None

    def _apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """With a generator of this process, after a draw of all."""
        seed = int(torch.randint(2**62, ())) + self.rank
        devices = {arg.device for arg in args if isinstance(arg, Tensor) and arg.is_cuda}
        with torch.random.fork_rng(devices=list(devices)):
            torch.default_generator.manual_seed(seed)
            for device in devices:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            return func(*args, **kwargs)


@contextmanager
def rows_along(dim: int) -> Iterator[None]:
    """Inside, the rows of what is drawn lie along this dimension, from the left."""
    mode = getattr(_MODES, "current", None)
    if mode is None:
        yield
        return
    before, mode.known = mode.known, dim
    try:
        yield
    finally:
        mode.known = before


def _normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, **other: Any
) -> tuple[Tensor, Any, Any] | None:
    """Mean of the form of the result, spread and generator of `torch.normal` of tensors."""
    if size is not None or other or not (isinstance(mean, Tensor) or isinstance(std, Tensor)):
        return None
    of = std if isinstance(std, Tensor) else mean
    mean = mean if isinstance(mean, Tensor) else torch.full_like(of, mean)
    shape = torch.broadcast_shapes(mean.shape, getattr(std, "shape", ()))
    return mean.expand(shape).contiguous(), std, generator


def _all_ints(args: Any) -> bool:
    return all(isinstance(arg, int) for arg in args)
