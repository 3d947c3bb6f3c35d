"""What a story says to each of its readers, compared on a few rows before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pyro import poutine
from torch import Tensor

from pyro_gcm._utils.torch_state import Randomness, evaluating
from pyro_gcm.inference.reading import Plan, Reader, is_finite, of
from pyro_gcm.inference.story_lines import FROM_THE_END, OUTCOME, check_batch

if TYPE_CHECKING:
    import pandas as pd

#: Rows and draws that a story is read for: numbers that no event should have.
ROWS, DRAWS = 5, 3
#: Relative and absolute difference up to which log-densities are equal.
_CLOSE = 2e-3

Values = Mapping[str, Tensor]


class Site(NamedTuple):
    """A line of a story, as `check_story` finds it."""

    kind: str
    shape: tuple[int, ...]
    depends_on_r: bool = False
    read_by: str = "all"


def check_story(model: Any, x: Tensor | None = None, r: Tensor | None = None) -> pd.DataFrame:
    """Read a model's story in every way on a few rows and draws, and compare what is found.

    `fit`, predictions and posteriors do so when they first meet a story of your own. A row site has
    the shape [..., B, *event] in every reading, so that each line is written for any number of
    dimensions before B; what a row's sites are depends on that row alone, and on no randomness
    besides the sites.

    :param x: rows of the data, [n, x_dim], of which a few are read; standard normal ones by
        default.
    :param r: [n, r_dim], likewise.
    :returns: a table of the sites by name: their kind ("latent", "finite", "observed", "input",
        "shared", "cost" or "outcome"), the shape of their event, whether they depend on r, and who
        reads them: "all", that is program, fit, predictions and posteriors, or fewer. Where a site
        depends on r, predictions may fall in r.
    :raises ValueError: for the first line that two readings take differently, by name.
    :raises TypeError: for a line without a distribution.

    >>> from pyro_gcm import GCM
    >>> check_story(GCM(3, 2)).kind.to_dict()
    {'z': 'latent', 'x': 'input', 'w': 'latent', 'r': 'input', 'c': 'cost', 'y': 'outcome'}
    >>> check_story(GCM(3, 2)).read_by[["z", "w"]].tolist()
    ['all', 'program']
    """
    import pandas as pd

    with torch.no_grad(), evaluating(model), Randomness(0, model.device).in_use():
        sites = _Check(model, x, r).sites()
    return pd.DataFrame.from_dict(sites, orient="index", columns=list(Site._fields))


class _Known(Reader):
    """The log-densities of all lines at known values, by name."""

    def __init__(self, model: Any, plan: Plan, known: Values, x: Tensor, r: Tensor) -> None:
        super().__init__(model, plan, x, r)
        self.known = known
        #: Dimensions of a batch: 1 for one draw, [B], 2 for several.
        self.dims = known["z"].dim() - len(model.latents(plan)["z"].event_shape)
        self.log_p: dict[str, Tensor] = {}
        self.lines: dict[str, Site] = {}
        self.left: dict[str, Any] = {}
        self.known_shared = {name: known[name] for name in model.shared_sites()}
        self.shared = model.shared(self.share)

    def latent(self, name: str, p: Any) -> Tensor:
        """The known value."""
        fn = self.distribution(name, p)
        kind = "finite" if is_finite(fn) else "latent"
        return self._scored(name, kind, fn, self.known[name])

    def observe(self, name: str, p: Any, value: Tensor) -> Tensor:
        """The observed value."""
        return self._scored(name, "observed", of(p), value)

    def leave(self, name: str, p: Any) -> Any:
        """The distribution, scored at the known value where there is one."""
        self.left[name] = left = super().leave(name, p)
        if name in self.known:
            self._scored(name, "cost", left.fn, self.known[name])
        return left

    def outcome(self, p: Any, obs: Any) -> Any:
        """The distribution of the outcome, and its density where it is known."""
        self.p_y = of(p)
        return obs if obs is None else self._scored(OUTCOME, "outcome", self.p_y, obs)

    def _scored(self, name: str, kind: str, fn: Any, value: Tensor) -> Tensor:
        check_batch(name, fn, len(self.x), self.dims)
        self.lines[name] = Site(kind, tuple(fn.event_shape))
        self.log_p[name] = self.log_density(fn, value)
        return value


class _Check:
    """The readings of a story, of rows x and r."""

    def __init__(self, model: Any, x: Tensor | None, r: Tensor | None) -> None:
        self.model, self.shared, self.y = model, model.shared_sites(), None
        like: Any = {"device": model.device, "dtype": model.dtype}
        columns = []
        # Levels among the revenues are between 0 and 1.
        units = (torch.randn, model.x_standardizer), (torch.rand, model.r_standardizer)
        for given, (draw, unit) in zip((x, r), units, strict=True):
            if given is None:
                given = unit.inverse(draw(ROWS, len(unit.loc)).to(**like))
            at = torch.linspace(0, len(given) - 1, ROWS).round().long().to(given.device)
            columns.append(given[at].to(**like))
        self.x, self.r = columns

    def sites(self) -> dict[str, Site]:
        """The sites, after all comparisons."""
        objectives = sorted(self.model.objectives, key="conditional".__ne__)
        pair = self.model.training_pair(objectives[0])
        self.plan = pair.plan
        traces = [poutine.trace(pair.program).get_trace(self.x, self.r) for _ in range(DRAWS)]
        self.y = traces[0].nodes[OUTCOME]["value"]
        each = [self._latents(trace) for trace in traces]
        for one in each:
            left = self._known(one, y=False).left
            one |= {name: site.fn.expand((ROWS,)).sample() for name, site in left.items()}
        flat = [self._known(one) for one in each]
        found = {n: torch.stack([_wide(one.log_p[n]) for one in flat]) for n in flat[0].log_p}
        again = self._known(each[0]).log_p
        self._same(flat[0].log_p, again, "when it is read again: use sites for noise")
        every = {name: torch.stack([one[name] for one in each]) for name in each[0]}
        every |= {name: every[name].unsqueeze(1) for name in self.shared}

        in_pyro = [self._pyro(pair.program, one) for one in each]
        told = {n: p for n, p in found.items() if n in in_pyro[0] and n not in self.plan.exact}
        self._same(told, {n: torch.stack([p[n] for p in in_pyro]) for n in told}, "in the program")
        whole = self._known(every)
        self._same(found, whole.log_p, f"for several draws than for one: {FROM_THE_END}")
        order = torch.tensor([3, 0, 2, 4], device=self.x.device)
        some = self._known(every, rows=order).log_p
        self._same({n: p[:, order] for n, p in found.items()}, some, "among other rows")
        without = {n: p for n, p in found.items() if n != OUTCOME}
        self._same(without, self._known(every, y=False).log_p, "without y")
        return self._sites(whole, found, self._raised(every))

    def _sites(self, whole: _Known, found: Values, raised: _Known) -> dict[str, Site]:
        """The sites, with a warning of those that depend on r."""
        shared = {n: Site("shared", tuple(s.event_shape)) for n, s in self.shared.items()}
        own = [n for n in found if n not in {"x", "r", OUTCOME, *self.plan.exact}]
        moved = [n for n in own if not _close(found[n], raised.log_p[n])]
        if moved:
            self.model.warn_once(
                f"site '{moved[0]}' of the story depends on r: predictions may fall where r rises"
            )
        response = self.model.response
        if response.is_probability:
            low, high = (response.predict(read.p_y) for read in (whole, raised))
            if (high < low - _CLOSE * low).any():
                self.model.warn_once("the outcome of the story falls where r rises")
        informed = self.model.prediction_plan.informed
        lines = {}
        for name, site in poutine.trace(self.model.model).get_trace(self.x, self.r).nodes.items():
            if line := whole.lines.get(name):
                by = "program, fit, posteriors" if name in informed else "all"
                lines[name] = line._replace(depends_on_r=name in moved, read_by=by)
            elif site["type"] == "sample" and name != "data" and name not in shared:
                kind = "input" if name in ("x", "r") else "latent"
                lines[name] = Site(kind, tuple(site["fn"].event_shape), read_by="program")
        return shared | lines

    # Readings

    def _known(
        self, known: Values, *, r: Any = None, rows: Any = slice(None), y: bool = True
    ) -> _Known:
        """The story read with known values, of some rows."""
        if not isinstance(rows, slice):
            known = {n: v if n in self.shared else v[:, rows] for n, v in known.items()}
        r = self.r if r is None else r
        read = _Known(self.model, self.plan, known, self.x[rows], r[rows])
        try:
            read.tell(read.x, read.r, self.y[rows] if y and self.y is not None else None)
        except (RuntimeError, IndexError) as error:
            shapes = {tuple(v.shape) for n, v in known.items() if n not in self.shared}
            shape = " and ".join(map(str, sorted(map(list, shapes))))
            raise ValueError(
                f"the story fails at line '{read.line}' for values of {shape}: {error}; "
                f"{FROM_THE_END}"
            ) from error
        return read

    def _raised(self, known: Values) -> _Known:
        """The same with revenues that occur and are nowhere below these."""
        return self._known(known, r=torch.maximum(self.r, self.r.roll(1, 0)))

    def _latents(self, trace: Any) -> dict[str, Tensor]:
        """The values of a program's latent sites, those that all rows share as one event."""
        values = {n: trace.nodes[n]["value"] for n in trace.stochastic_nodes if n != OUTCOME}
        for name, site in self.shared.items():
            values[name] = values[name].reshape(site.event_shape)
        return values

    def _pyro(self, program: Any, known: Values) -> dict[str, Tensor]:
        """Log-densities of rows in Pyro's trace of a program with known values."""
        inside = {n: v for n, v in known.items() if n not in self.plan.left}
        conditioned = poutine.condition(program, data=inside)
        trace = poutine.trace(conditioned).get_trace(self.x, self.r, self.y)
        trace.compute_log_prob()
        sites = {n: node["log_prob"] for n, node in trace.nodes.items() if "log_prob" in node}
        return {n: _wide(p) for n, p in sites.items() if n not in self.shared}

    @staticmethod
    def _same(ours: Values, theirs: Values, how: str) -> None:
        for name, log_p in ours.items():
            if name not in theirs:
                raise ValueError(f"site '{name}' of the story is not there {how}")
            if not _close(log_p, theirs[name]):
                raise ValueError(f"site '{name}' of the story has another density {how}")


def _wide(log_p: Tensor) -> Tensor:
    """One density of each row, also where all rows have the same."""
    return log_p if log_p.dim() else log_p.expand(ROWS)


def _close(a: Tensor, b: Tensor) -> bool:
    a, b = torch.broadcast_tensors(a.double(), b.double())
    return torch.allclose(a, b, _CLOSE, _CLOSE, equal_nan=True)
