"""Predictions that rise with the revenue exactly: the same base samples, blocks and sums each time.

Averaging over fresh draws of z would break monotonicity, and so would rounding: a matrix product of
another shape, or a sum in another order, gives other bits. Here every prediction uses the same base
samples, every row is multiplied in a block of one fixed size, and matrix products do not depend on
the position of a row in its block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from pyro.distributions import MaskedDistribution
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.overrides import TorchFunctionMode

from pyro_gcm._utils.process_state import Randomness
from pyro_gcm._utils.warn import warn_user

#: Rows of x, or of revenues, that make a block; shorter blocks are padded. A multiple of what a
#: processor's widest vectors hold, so that no number is computed by itself at the end of a tensor.
BLOCK_ROWS = 32
#: Draws of rows that are evaluated at a time, where there are so many.
PASS = 1 << 15
#: How many times as much is done at a time on a GPU, where a small piece takes as long as a large.
_ON_GPU = 16
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class BaseSamples(nn.Module):
    """Standard normal base samples from a scrambled Sobol sequence, the same at every call.

    Its state has the seed, so that a longer piece is the same after `load_state_dict`, too.

    :param num_samples: samples kept in the buffer `samples`, [num_samples, dim]; best a power of 2.
    :param dim: number of variables that a prediction draws.
    :param seed: seed of the scrambling.
    """

    samples: Tensor

    def __init__(self, num_samples: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.dim, self.seed = dim, seed
        #: The type that the sequence is rounded to, whatever the type of the model is later.
        self.rounded = torch.get_default_dtype()
        self.register_buffer("samples", self._sobol(num_samples))

    def _sobol(self, num_samples: int) -> Tensor:
        engine = torch.quasirandom.SobolEngine(self.dim, scramble=True, seed=self.seed)
        uniform = engine.draw(num_samples, dtype=torch.float64)
        # The engine holds its first point in torch's default type, which may be another by now.
        uniform[:1] = (engine.shift.to(self.rounded) / (1 << 30)).double()
        smallest = 0.5 / (1 << 30)  # Sobol points are multiples of 2^-30, 0 among them
        return torch.special.ndtri(uniform + smallest).to(self.rounded)

    def get_extra_state(self) -> Tensor:
        """Seed and number of the type in `_TYPES`, which as a buffer would have to be read back."""
        seed = self.seed - (1 << 64) if self.seed >> 63 else self.seed
        return torch.tensor([seed, _TYPES.index(self.rounded)], device=self.samples.device)

    def set_extra_state(self, state: Tensor) -> None:
        """Take what `get_extra_state` gave."""
        seed, number = state.tolist()
        self.seed, self.rounded = seed % (1 << 64), _TYPES[number]

    def forward(self, num_samples: int | None = None) -> Tensor:
        """The stored samples, or a longer or shorter piece of the same sequence, [N, 1, dim]."""
        if num_samples is None or num_samples <= len(self.samples):
            return self.samples[:num_samples].unsqueeze(1)
        return self._sobol(num_samples).to(self.samples).unsqueeze(1)

    def further(self, first: int, dim: int, num_samples: int) -> Tensor:
        """Coordinates of the same points beyond those that are kept, [N, 1, dim].

        :param first: how many of them come before these.
        """
        sequence = BaseSamples(num_samples, self.dim + first + dim, self.seed)
        return sequence.samples[:, None, self.dim + first :].to(self.samples)


def driven_draws(distribution: Any, base: Tensor, seed: int) -> Tensor:
    """Draws [N, ..., D] driven by base samples [N, ..., D] that broadcast to the batch shape.

    Uses the distribution's own `rsample_from(base)` if it has one, the location and scale of a
    normal distribution, and the quantile function of other distributions with independent
    coordinates. A distribution with none of these is sampled with a fixed seed, which is
    deterministic for one block of rows only: neither monotonicity nor equality across batches is
    then promised, and a warning says so.
    """
    if hasattr(distribution, "rsample_from"):
        return distribution.rsample_from(base)
    coordinate = distribution
    while isinstance(coordinate, torch.distributions.Independent | MaskedDistribution):
        coordinate = coordinate.base_dist
    if isinstance(coordinate, torch.distributions.MultivariateNormal):
        return coordinate.loc + (coordinate.scale_tril @ base.unsqueeze(-1)).squeeze(-1)
    if not coordinate.event_shape:
        shape = distribution.event_shape
        try:
            return column_draws(coordinate, base.unflatten(-1, shape) if shape else base[..., 0])
        except NotImplementedError:
            pass
    warn_user(
        f"{type(coordinate).__name__} has neither rsample_from(base) nor icdf: predictions use "
        "seeded Monte Carlo draws and are not exactly monotone"
    )
    with Randomness(seed, base.device).in_use():
        return distribution.sample((len(base),))


def column_draws(columns: Any, base: Tensor) -> Tensor:
    """Draws of a univariate distribution of batch shape [..., D], driven by base samples."""
    if isinstance(columns, torch.distributions.Normal):
        return columns.loc + columns.scale * base
    if isinstance(columns, torch.distributions.TransformedDistribution):
        value = column_draws(columns.base_dist, base)
        for transform in columns.transforms:
            value = transform(value)
        return value
    return columns.icdf(torch.special.ndtr(base))


def at_once(number: int, device: torch.device) -> int:
    """How much is done at a time on a device: `number` on the CPU."""
    return number * _ON_GPU if device.type == "cuda" else number


def row_blocks(*columns: Tensor, draws: int) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
    """Where some rows of row-aligned tensors stand, and these rows, padded to whole blocks.

    :param draws: of every row; there are as many blocks at a time as PASS allows.
    """
    device = columns[0].device
    block = at_once(BLOCK_ROWS, device)
    size = max(1, at_once(PASS, device) // (draws * block)) * block
    for start in range(0, len(columns[0]), size):
        place = slice(start, min(start + size, len(columns[0])))
        parts, missing = [column[place] for column in columns], (start - place.stop) % block
        if missing:  # the last row is repeated until the last block is full
            ends = [rows[-1:].expand(missing, *rows.shape[1:]) for rows in parts]
            parts = [torch.cat(both) for both in zip(parts, ends, strict=True)]
        yield place, tuple(parts)


def in_blocks(function: Callable[..., Tensor], *arguments: Tensor, draws: int) -> Tensor:
    """`function` of row-aligned arguments, some blocks at a time, without the padding."""
    blocks = row_blocks(*arguments, draws=draws)
    return torch.cat([function(*rows)[: place.stop - place.start] for place, rows in blocks])


class BatchInvariantProducts(TorchFunctionMode):
    """Inside, a layer gives a row the same bits at every place, in a block or in several.

    Some processors multiply rows that start at a multiple of 16 or 32 bytes with another kernel
    than the rows between, and round differently; columns of zeros put the rows of
    `torch.nn.functional.linear` 64-byte steps apart. The kernel may depend on the number of rows as
    well, so that without gradients the blocks of `linear` and `matmul` are multiplied one by one.
    It depends on the number of threads, too: predictions run on one.
    """

    #: That it changes nothing else (`without_products`).
    products_alone = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Products of rows and a matrix block by block; everything else as it is."""
        if func is linear:
            return _linear(*args, **(kwargs or {}))
        if func is torch.baddbmm:
            return _of_members(*args)
        if func in _MATMUL and _has_blocks(args[0]) and args[1].dim() == 2:
            return _by_blocks(args[0], args[1])
        return func(*args, **(kwargs or {}))


_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__}


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    missing = -input.shape[-1] % (64 // input.element_size())
    input, weight = _placed(input), _placed(weight)
    if _has_blocks(input):
        return _by_blocks(input, pad(weight, (0, missing)).t(), bias)
    if missing:
        input, weight = pad(input, (0, missing)), pad(weight, (0, missing))
    return linear(input, weight, bias)


def _of_members(bias: Tensor, rows: Tensor, matrices: Tensor) -> Tensor:
    """bias [K, 1, width] + rows [K, B, columns] @ matrices [K, columns, width], block by block.

    In a narrow product a row's place would change its bits, so that zeros widen it to 64 bytes.
    """
    width, step = bias.shape[-1], 64 // rows.element_size()
    missing, unused = -rows.shape[-1] % step, -width % step
    distinct = rows[:1] if rows.stride(0) == 0 else rows  # members may read the same ones
    distinct = pad(distinct, (0, missing)) if missing else distinct
    rows = _placed(distinct).expand(len(rows), -1, -1)
    bias, matrices = pad(bias, (0, unused)), pad(matrices.mT, (0, missing, 0, unused)).mT
    block = at_once(BLOCK_ROWS, rows.device)
    size = block if rows.shape[1] % block == 0 else rows.shape[1]
    whole = rows.new_empty(*rows.shape[:2], width + unused)
    for part, out in zip(rows.split(size, 1), whole.split(size, 1), strict=True):
        torch.baddbmm(bias, part, matrices, out=out)
    return whole[..., :width]


def _placed(values: Tensor) -> Tensor:
    """The values in a tensor whose first lies at a multiple of 64 bytes."""
    if values.is_contiguous() and values.data_ptr() % 64 == 0:
        return values
    return values.clone(memory_format=torch.contiguous_format)


def _has_blocks(rows: Tensor) -> bool:
    """Whether [..., rows, columns] are those of several blocks."""
    block = at_once(BLOCK_ROWS, rows.device)
    several = rows.dim() > 1 and rows.shape[-2] > block and rows.shape[-2] % block == 0
    return several and not torch.is_grad_enabled()


def _by_blocks(input: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of [..., rows, columns] and [columns or more, width].

    It multiplies as many rows at a time as one block has, for all draws, wherever they stand, in
    a place where their columns are padded and aligned.
    """
    columns = input.shape[-1]
    flat = input.reshape(input.shape[:-1].numel(), columns)
    whole = flat.new_empty(len(flat), matrix.shape[1])
    size = len(flat) // input.shape[-2] * at_once(BLOCK_ROWS, input.device)
    padded = None if len(matrix) == columns else flat.new_zeros(size, len(matrix))
    for part, out in zip(flat.split(size), whole.split(size), strict=True):
        if padded is not None:
            padded[:, :columns] = part
            part = padded
        if bias is None:
            torch.mm(part, matrix, out=out)
        else:
            torch.addmm(bias, part, matrix, out=out)
    return whole.reshape(*input.shape[:-1], -1)


def pairwise_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over dimension 0 by halving: the order of the additions is the same for every layout.

    Rises with every value, also under weights (which sum to 1): rounding keeps the order of
    products with one factor and of sums with one term, and the result is held within the values.
    """
    size, bounds = values.shape[0], None
    count = size
    if weights is not None:
        bounds = values.amin(0), values.amax(0)
        values, count = values * weights.to(values.dtype), 1
    ours = weights is not None  # to be overwritten
    while size > 1:
        half, odd = divmod(size, 2)
        if ours:
            values[:half].add_(values[half : 2 * half])
            if odd:
                values[half].copy_(values[2 * half])
        else:
            sums = values[:half] + values[half : 2 * half]
            values, ours = torch.cat([sums, values[2 * half :]]) if odd else sums, True
        size = half + odd
    mean = values[0] / count
    return mean if bounds is None else torch.clamp(mean, *bounds)
