"""The interface of a response, through which a model knows y; the event itself, and guesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pyro_gcm._utils.recipe import recorded
from pyro_gcm._utils.validation import ArrayLike, positive_int, vector
from pyro_gcm.distributions import OrderEvent
from pyro_gcm.prediction.predictive import MeanPredictive, Predictive
from pyro_gcm.training.result import entropy

#: A number of revenues and the shape of what is returned for a row, to an increasing map.
MakeMap = Callable[[int, tuple[int, ...]], nn.Module]
Model = TypeVar("Model", bound=nn.Module)

#: Responses that `response=` names; a subclass `class Mine(Response, name="mine")` enters itself.
RESPONSES: dict[str, type[Response]] = {}


class Response(nn.Module):
    """Interface of a response; the class attributes are the answers of a cautious subclass.

    A subclass with `name=` is what `response=` of a model finds under that name, and is made with
    the number of columns that it reads and the hidden layers of its networks.
    """

    #: What messages call it: "binary", "survival" and so on.
    named = "response"

    #: The bound that `fit` uses when none is named.
    default_elbo = "iwae"
    #: What a prediction is, for the label of an axis: "... of y".
    predicts = "prediction"
    #: Whether predictions are probabilities.
    is_probability = False
    #: What `model.predictive` offers. For quantiles a response has a method `from_standard`, from a
    #: number without a unit to y, which rises with it.
    predictive: type[Predictive] = Predictive
    #: Upper bound of log p(y | z, x, r), which exact posterior draws by rejection need; or None.
    log_likelihood_bound: float | None = None
    #: Columns of y.
    outcome_width = 1
    #: The distribution of the costs where the response determines it.
    cost_family: type | None = None
    #: Why revenues may not be generated; empty where they may.
    needs_gcm = ""
    #: For each revenue +1 if predictions rise with it, -1 if they fall and 0 if they may do either;
    #: None where they rise with all.
    directions: Sequence[int] | None = None
    #: Indices of the revenues with diminishing returns, which are at least 0.
    concave: Sequence[int] = ()
    #: Whether it is one of several, of which a model has the whole, and is for predictions alone.
    is_part = False

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.named = name or cls.__name__.lower()
        if name is not None:
            RESPONSES[name] = cls

    def check_r_dim(self, r_dim: int) -> None:
        """Raise ValueError for a number of revenues that leaves y nothing to rise with."""
        positive_int("r_dim", r_dim)

    def check_generated(self) -> None:
        """Raise ValueError where revenues may not be generated, as those of an `IGCM` are."""
        if self.needs_gcm:
            raise ValueError(
                f"response={self.named!r} needs GCM: {self.needs_gcm}, and those of an IGCM are "
                "generated, r = W k + dr"
            )

    def check_whole(self) -> None:
        """Raise ValueError for one of several responses, which is for predictions alone."""
        if self.is_part:
            raise ValueError(
                "model must be that of all responses: `response_model` is for predictions"
            )

    def costs_of(self, costs: int) -> int:
        """The number of costs of an alternative, for so many of a single response."""
        return costs

    def revenue_maps(self, make: MakeMap, r_dim: int, shape: tuple[int, ...]) -> nn.Module:
        """The map of r_dim revenues to the shape of the costs (of all members).

        :param make: makes one for a number of revenues and a shape.
        """
        return make(r_dim, shape)

    def check_parts(self, revenue_map: Any, p0: Any) -> None:
        """Raise ValueError for a revenue map, or infinite costs, that leave y no distribution."""

    def attach(self, model: Any) -> None:
        """Note that a model, of `members`, has this response, whose parts are built for it alone.

        :raises ValueError: for a response of another model.
        """
        if self.__dict__.get("_is_attached"):
            raise ValueError(
                f"response must be a {type(self).__name__} of its own for every model and place of "
                "Several: this one belongs to another"
            )
        self._is_attached, self.members = True, model.members

    def prepare(self, model: Any, cost_shape: tuple[int, ...]) -> None:
        """Build what depends on the other parts of a model, which calls it once.

        :param model: a `models.OrderEventModel`.
        :param cost_shape: event shape of the costs.
        """

    def outcome(self, y: ArrayLike, device: torch.device | None = None) -> Tensor:
        """y as a tensor with a row for each of the data, [n] by default."""
        return vector("y", y, device)

    def site_distribution(self, p_y: Any, *, separate: bool) -> Any:
        """Return the distribution at site y of a program, from that of `distribution`.

        :param separate: whether every value of z is trained on a likelihood of its own.
        """
        return p_y

    def averaged_loss(self, p_y: Any, log_p: Tensor, y: Tensor) -> Tensor:
        """Return the loss that chooses the number of epochs of members, [B]: minus the log score.

        It is a loss of their averaged prediction, which improves longer than the mean of theirs.

        :param p_y: p(y | z, x, r) of every member, [K, B].
        :param log_p: log p(z), [K, 1].
        """
        return -torch.logsumexp(log_p + p_y.log_prob(y), 0)

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """The mean of -log p(y) in nats of a good distribution that is the same for all rows.

        `fit` warns where training ends far above it.

        :param y: outcomes as `outcome` gives them, float64, not all equal.
        :param share: of each row, which sum to 1.
        :returns: None where there is none.
        """
        return None

    def nothing_to_learn(self, low: Tensor, high: Tensor) -> str | None:
        """What to warn of where all outcomes lie from `low` to `high`, if they tell nothing.

        :param low, high: as rows of `outcome`.
        """
        if low.dim() or low != high:
            return None
        return f"y has the same value in all rows, {low:g}: there is nothing to learn"

    def log_selected(self, p_y: Any, y: Tensor) -> Tensor | None:
        """log-probability of rows being in the data at all, given z, [..., n]; None for 1."""
        return None

    def check_latent(self, model: Any, y: Tensor) -> None:
        """Raise ValueError for outcomes [n] that training cannot combine with the model's z."""

    def event_named(self, name: str | None) -> str:
        """The event of a probability, for the label of an axis.

        :param name: of y, if it is known by another one.
        """
        return f"{name or 'y'} = 1"

    def columns_of(self, y: Tensor) -> dict[str, Tensor]:
        """Outcomes as columns by name, each [n]: for tables and exports."""
        return {"y": y}

    def drawn_columns(self, y: Tensor) -> dict[str, Tensor]:
        """Draws of y from site y as numbers by name."""
        return {"y": self.drawn(y)}

    def drawn(self, y: Tensor) -> Tensor:
        """Draws of y from site y as numbers, [...]."""
        return y

    def derived(self, p_y: Any, cost: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """Sites besides y that depend on costs, given y too where it is given: of a posterior."""
        return {}

    def exposed(self, y: ArrayLike, exposure: ArrayLike) -> Tensor:
        """Outcomes that were seen over an exposure [n].

        :raises ValueError: for a response whose outcomes have none.
        """
        raise ValueError(f"exposure is for response='count', got {self.named!r}")

    def exposure_of(self, exposure: ArrayLike, rows: Tensor) -> Tensor:
        """Checked exposures of rows, [n].

        :raises ValueError: as `exposed` does.
        """
        return self.exposed(rows, exposure)

    def model_of(self, model: Model, name: Any) -> Model:
        """The model with one of several responses alone.

        :raises ValueError: for a response that is one.
        """
        raise ValueError("response_model needs a model of responses.Several responses")

    def check_rises_in(self, revenue: int) -> None:
        """Raise ValueError for the index of a revenue in which predictions do not rise."""
        if self.directions is not None and self.directions[revenue] != 1:
            raise ValueError(
                f"revenue {revenue} must be one in which the prediction rises, got a direction of "
                f"{self.directions[revenue]}"
            )

    def check_revenue(self, r: Tensor) -> None:
        """Raise ValueError for revenues [n, m] that this response cannot have."""
        for at in self.concave:
            if (low := r[:, at].amin().item()) < 0.0:
                raise ValueError(
                    f"r must be at least 0 in column {at}, whose returns diminish from 0 on "
                    f"(concave), got {low:g}"
                )

    def check_outcome(self, y: Tensor) -> None:
        """Raise ValueError for outcomes [n] that this response cannot have."""

    def learn_unit(self, y: Tensor) -> None:
        """Learn the unit of y from training rows [n]."""

    def initial_cured_fraction(self, y: Tensor) -> float | None:
        """Where the probability that no event comes starts, from training rows [n], if they say."""
        return None

    def target(self, y: Tensor) -> Tensor:
        """The numbers [n] whose mean is the prediction, of outcomes of one column."""
        return y

    def standardized(self, y: Tensor) -> Tensor:
        """y [n] as a guide reads it, without a unit."""
        return y

    def prediction_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype of the predictions of a model of this dtype."""
        return dtype

    def r_dist(self) -> Any:
        """p(r) where the response itself fixes it, otherwise None."""
        return None

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> Any:
        """p(y | z, x, r) with the costs integrated out; x standardised, r in its own units.

        The result has `given_cost(c)`, `marginalize(cost_distribution)` and `cost_posterior(y)`.
        """
        raise NotImplementedError

    def predict(self, p_y: Any) -> Tensor:
        """Return the value of p(y | z, x, r) that predictions average over z, float64, [..., N, b].

        It increases in the probability of the event.
        """
        known = getattr(p_y, "prediction64", None)
        return p_y.mean.double() if known is None else known()

    def expected(self, p_y: Any) -> Tensor:
        """`predict` with gradients, in the form of the likelihood: equal but for rounding."""
        return p_y.mean


@recorded("models.Binary")
class Binary(Response, name="binary"):
    """y in {0, 1} is the event itself; the prediction is Pr(y = 1)."""

    predicts = "probability"
    is_probability = True
    predictive = MeanPredictive
    log_likelihood_bound = 0.0

    def __init__(self, x_dim: int = 0, hidden: Any = 16) -> None:
        super().__init__()

    def check_outcome(self, y: Tensor) -> None:
        """Only 0 and 1; NaN where costs may be given in its place."""
        strange = (y != 0) & (y != 1)
        if strange.any():
            raise ValueError(
                "y must be 0 or 1 for response='binary', got "
                f"{sorted(set(y[strange].tolist()))[:5]}"
            )

    def constant_loss(self, y: Tensor, share: Tensor) -> float | None:
        """That of the share of the event."""
        return entropy(y, share)

    def distribution(self, event: OrderEvent, x: Tensor, r: Tensor) -> OrderEvent:
        """The event."""
        return event
