"""What a line of a story may be, so that every reader follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyro.poutine import runtime
from pyro.poutine.mask_messenger import MaskMessenger
from pyro.poutine.messenger import Messenger
from pyro.poutine.scale_messenger import ScaleMessenger
from torch.distributions import Distribution

#: Name of the outcome's site.
OUTCOME = "y"
#: What is wrong with most stories that fail.
FROM_THE_END = "index from the end, as u[..., 0], u.unsqueeze(-1) or softmax(u, -1)"


def check_batch(name: str, p: Any, rows: int, dims: int) -> None:
    """Refuse the distribution of a site whose batch is no batch of rows, and of draws of them.

    :param dims: dimensions of a batch: 1 for one draw, 2 for several.
    """
    batch = p.batch_shape
    if batch and (batch[-1] not in (1, rows) or len(batch) > dims):
        raise ValueError(
            f"site '{name}' has batch shape {list(batch)} for {rows} rows"
            f"{' and one draw' if dims == 1 else ''}: add .to_event(1) to its distribution, or "
            f"{FROM_THE_END}"
        )


class Listener(Messenger):
    """Hears all of a story of the user's, and refuses what not every reader would follow.

    It is the innermost handler around a story, so that those above it are the story's own.

    :param y: the outcome that the story was given.
    """

    def __init__(self, caller: Any, y: Any) -> None:
        super().__init__()
        self.caller, self.y = caller, y
        self.lines: list[str] = []

    def around(self) -> list[Any]:
        """The handlers that the line is inside of."""
        stack: Any = runtime._PYRO_STACK
        return list(stack[stack.index(self) + 1 :])

    def line(self, name: str, p: Any, obs: Any) -> Callable[[], Any]:
        """What gives the distribution of a line, which is refused where it cannot be one."""
        if not isinstance(name, str):
            raise TypeError(f"a line of the story needs a name of its site, got {name!r}")
        weighs = obs is not None and name != OUTCOME
        for handler in self.around():
            if not (weighs and isinstance(handler, ScaleMessenger | MaskMessenger)):
                raise ValueError(
                    f"line '{name}' of the story is inside {type(handler).__name__} of Pyro, which "
                    "only a program would follow: write its effect into the distribution; "
                    "poutine.scale and mask may be around observed sites besides y, whose rows "
                    "sample_weight of fit weighs"
                )
        if name in self.lines or OUTCOME in self.lines:
            where = "twice" if name in self.lines else f"after '{OUTCOME}', the last one"
            raise ValueError(f"site '{name}' of the story is there {where}")
        given = {"x": self.caller.x, "r": self.caller.r, OUTCOME: self.y}.get(name)
        if given is not None and obs is None:
            raise ValueError(f"line '{name}' of the story needs obs={name}")
        own_w = name == "w" and p != getattr(self.caller.model, "w_dist", None)
        if own_w or name in ("e", "data"):
            raise ValueError(f"'{name}' is a name of the library's: give the site another one")
        self.lines.append(name)

        def distribution() -> Any:
            found = p() if callable(p) and not isinstance(p, Distribution) else p
            if not isinstance(found, Distribution):
                raise TypeError(f"line '{name}' needs a distribution, got {type(found).__name__}")
            return found

        return distribution

    def check_whole(self) -> None:
        """Refuse a story without a site that its readers need."""
        for name in ("z", "c", OUTCOME):
            if name not in self.lines:
                raise ValueError(f"the story has no line '{name}', got {', '.join(self.lines)}")

    def _process_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and not self.caller.speaks_to_pyro:
            name = msg["name"]
            raise ValueError(
                f"pyro.sample('{name}') (or plate, factor, deterministic) in a story is for Pyro "
                f"alone: use the story's own argument, sample('{name}', ...), which every reader "
                "follows; rows are in a plate already"
            )
