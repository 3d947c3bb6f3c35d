"""A GCM of members for a table, with every setting chosen from the table itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, one_thread
from pyro_gcm._utils.validation import ArrayLike, as_tensor, one_of, seed_of, shown
from pyro_gcm._utils.warn import told_once
from pyro_gcm.inference import Crossed, FitResult, cross_fit, fit
from pyro_gcm.inference.training_data import checked_weights, weighed
from pyro_gcm.models import MemberGCM
from pyro_gcm.models.member_settings import MemberSettings
from pyro_gcm.models.members import member_map
from pyro_gcm.nets import MemberEncoder, TabularFeatures
from pyro_gcm.responses import RESPONSES, Continuous, Response


class FittedMembers(NamedTuple):
    """A trained model and how it came about.

    :param model: predicts, and all else that a `GCM` does.
    :param settings: with which it was built and trained on all rows.
    :param result: of that training.
    :param crossed: what predicts rows out of fold, if members left some out.
    """

    model: MemberGCM
    settings: MemberSettings
    result: FitResult
    crossed: Crossed | None = None


def build_members(
    settings: MemberSettings,
    x_dim: int,
    r_dim: int,
    *,
    response: str | Response = "binary",
    p0: Any = None,
    ordered: Sequence[Sequence[int]] = (),
    seed: int = 0,
) -> MemberGCM:
    """An untrained GCM of members.

    :param response, p0: as `GCM` takes them.
    :param ordered: groups of columns of x for the levels of ordered variables (`TabularFeatures`).
    """
    with Randomness(seed).in_use():
        features = TabularFeatures(
            x_dim, settings.bins, steps=settings.steps if settings.bins else 0.0, ordered=ordered
        )
        encoder = MemberEncoder(
            x_dim,
            settings.members,
            settings.width,
            dropout=settings.dropout,
            features=features,
            scaling=settings.scaling,
        )
        shape = (settings.alternatives, settings.costs)
        maps = member_map(
            r_dim,
            (encoder.members, *(shape[1:] if settings.alternatives == 1 else shape)),
            levels=response == "quantile",
            knots=settings.knots,
            min_rows=settings.min_rows,
            flat=settings.flat,
            seed=seed,
        )
        part: Any = response
        if response == "continuous" and not settings.equal_weights:
            part = Continuous(encoder.out_dim, ())
    return MemberGCM(
        x_dim,
        r_dim,
        members=encoder,
        response=part,
        alternatives=settings.alternatives,
        costs=settings.costs,
        revenue_map=maps,
        p0=p0,
        seed=seed,
    )


@one_thread()
@torch.inference_mode(False)  # with gradients, whatever the caller has switched off
@told_once()
def fit_members(
    x: ArrayLike,
    r: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    response: str = "binary",
    settings: MemberSettings | None = None,
    early_stopping: bool | str = "auto",
    groups: ArrayLike | None = None,
    ordered: Sequence[Sequence[int]] = (),
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> FittedMembers:
    """Build and train a GCM of members on rows (x, r, y) in the units of the data.

    :param x: [n, x_dim]; `r`: [n, r_dim], in which the prediction is to rise; `y`: [n].
    :param sample_weight: how much each row counts, [n], as in `fit`.
    :param response: a name that `GCM` takes, such as "binary", "continuous" or "survival".
    :param settings: by default those of `MemberSettings.for_response`.
    :param early_stopping: whether each row is left out by two of the members, whose prediction
        of it says how many epochs are best (`inference.cross_fit`). "auto" does so for 20 to 20,000
        rows: with more, the default number of epochs does not overfit. `settings` have the most
        epochs.
    :param groups: a label for each row, [n], of which rows with the same one are left out together.
    :param ordered: groups of columns of x for the levels of ordered variables, as in `adult.x`
        "education=1", "education=2", ... (`nets.TabularFeatures`).
    :raises ValueError: for wrong shapes, values or options, before any work is done.

    >>> import torch
    >>> from pyro_gcm import fit_members
    >>> x, r = torch.randn(200, 3), torch.rand(200, 2)
    >>> y = (x[:, 0] + r.sum(1) > 1).float()
    >>> fit_members(x, r, y, progress=False).model.predict(x[:4], r[:4]).shape
    torch.Size([4])
    """
    if not isinstance(early_stopping, bool | str) or early_stopping not in (True, False, "auto"):
        got = shown(early_stopping)
        raise ValueError(f'early_stopping must be "auto", True or False, got {got}')
    if settings is not None and not isinstance(settings, MemberSettings):
        raise TypeError(f"settings must be MemberSettings, got {shown(settings)}")
    one_of("response", response, list(RESPONSES))
    (rows, x_dim), (_, r_dim) = _shape("x", x), _shape("r", r)
    if sample_weight is not None:
        rows = len(weighed(checked_weights(sample_weight, rows))[0])
    chosen = settings or MemberSettings.for_response(response, rows, x_dim, r_dim)
    chosen, left_out = chosen.crossing(rows, early_stopping)
    model = build_members(
        chosen, x_dim, r_dim, response=response, ordered=ordered, seed=seed_of(seed)
    )
    options: dict[str, Any] = {**vars(chosen.training(model))}
    options |= {"sample_weight": sample_weight, "seed": seed, "device": device}
    options["progress"] = progress
    crossed = None
    if left_out:
        if settings is None:
            options["epochs"] = None  # those of the table are no bound of early stopping
        result, crossed = cross_fit(model, x, r, y, left_out=left_out, groups=groups, **options)
    else:
        result = fit(model, x, r, y, **options)
    return FittedMembers(model, replace(chosen, epochs=len(result.rows)), result, crossed)


def out_of_fold(
    model: MemberGCM, crossed: Crossed, function: Callable[..., Tensor], *columns: Tensor
) -> Tensor:
    """Return, for every training row, the predictions of members that left it out, [n, ...].

    It is from before the last epochs, in which every member sees all rows. Members share weights,
    which other members fit to those rows; in 21 fits to parts of five tables the log score of such
    predictions was not better than that of the same members on further rows (-.008 +- .006 nats).

    :param crossed: of the training, in which members left rows out.
    :param function: (model, *columns of some rows) -> what is asked for, [rows, ...], such as
        `lambda model, x, r: model.predict(x, r)`.
    :param columns: of the rows of a weight above 0 in the training, in their order, or of the
        first ones.
    :raises ValueError: for more rows than were trained on.

    >>> import torch
    >>> from pyro_gcm.members import fit_members, out_of_fold
    >>> x, r = torch.randn(200, 3), torch.rand(200, 2)
    >>> y = (x[:, 0] + r.sum(1) > 1).float()
    >>> model, _, _, crossed = fit_members(x, r, y, progress=False)
    >>> out_of_fold(model, crossed, lambda model, x, r: model.predict(x, r), x, r).shape
    torch.Size([200])
    """
    leaves_out, fold, weights = crossed
    count = len(columns[0])
    if count > len(fold):
        raise ValueError(f"columns must be of the {len(fold)} rows trained on, got {count}")
    fold = fold[:count]
    before = copy.deepcopy(model)
    before.load_state_dict(weights)
    logits, before.member_weights = before.get_buffer("z_prior.logits"), "of some members"
    parts, order = [], []
    for those in leaves_out.T.unique(dim=0):
        logits.copy_(torch.where(those, 0.0, -math.inf))
        folds = (those == leaves_out.T).all(1).nonzero()[:, 0]
        rows = torch.isin(fold, folds).nonzero()[:, 0]
        parts.append(function(before, *(column[rows] for column in columns)))
        order.append(rows)
    return torch.cat(parts)[torch.cat(order).argsort()]


def _shape(name: str, columns: ArrayLike) -> tuple[int, int]:
    shape = tuple(as_tensor(name, columns).shape)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{name} must be a matrix [rows, columns], got shape {shape}")
    return shape[0], shape[1]
