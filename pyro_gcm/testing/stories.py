"""The promises of a model, whatever its story and its parts are: each is a test to inherit."""

from __future__ import annotations

import copy
import pickle
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from pyro import poutine
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from pyro_gcm import fit, load, save
from pyro_gcm.inference import check_story
from pyro_gcm.testing.checks import check, same, skip, within
from pyro_gcm.testing.programs import Rows, in_doubles, losses, program_draws, weighed

#: Draws of the program, those behind a prediction, and those of a posterior.
BRUTE_FORCE, PREDICTED, POSTERIOR = 10_000, 1024, 1000


def _answers(model: Any, rows: Rows) -> dict[str, Tensor]:
    return {"predict": model.predict(*rows[:2]), "log_prob": model.log_prob(*rows)}


class StoryTests:
    """Tests of a model whose story is your own: override `make`, and collect the class.

    ::

        class TestFactor(StoryTests):
            def make(self):
                return Factor(x_dim=3, r_dim=2)

    Every reader of the story is compared with Pyro's trace of the program, predictions and
    posteriors with draws of that program weighed by hand, both types of floating-point numbers with
    each other. Predictions may not fall when a revenue rises, and a copy, a saved model and a
    second device have to give the same numbers. What fails says so in a sentence. A test that your
    model is not to pass is set to None in the class.
    """

    x_dim, r_dim = 3, 2
    #: Functions for the parts that come from outside of the library, as `save` takes them.
    factories: Mapping[str, Callable[[], Any]] | None = None

    def make(self) -> Any:
        """Return a new object of what is tested: here a model."""
        raise NotImplementedError("make must return a new object of what is tested")

    def model(self) -> Any:
        """A new model with what is tested."""
        return self.make()

    def rows(self, model: Any, count: int) -> Rows:
        """x, r and y that the model can have; override where columns have a meaning.

        By default x is normal, r uniform, between 0 and 1 where it is a level and -1 and 2
        elsewhere, and y drawn from the untrained model.
        """
        asked, got = ((getattr(of, "x_dim", 0), getattr(of, "r_dim", 0)) for of in (self, model))
        check(asked == got, f"make must return a model of x_dim and r_dim {asked}, got {got}")
        x, r = torch.randn(count, self.x_dim), torch.rand(count, self.r_dim)
        r = r if model.response.r_dist() is not None else 3.0 * r - 1.0
        with torch.no_grad():
            return x, r, model.model(x.to(model.dtype), r.to(model.dtype)).to(x.dtype)

    def device(self) -> AbstractContextManager[torch.device]:
        """A second device: CUDA, without which its test is skipped."""
        if not torch.cuda.is_available():
            skip("there is no CUDA device")
        return nullcontext(torch.device("cuda", 0))

    def prepared(self, dtype: torch.dtype = torch.float64, count: int = 200) -> tuple[Any, Rows]:
        """The model with the units of its rows, and these; weights that are zero are moved."""
        torch.default_generator.manual_seed(0)  # for all that a test draws from here on
        model = self.model()
        rows = self.rows(model, count)
        model.shared_sites()  # whose guide has parameters
        with torch.no_grad():
            for parameter in (p for p in model.parameters() if not p.any()):
                parameter.normal_(0.0, 0.2)
        model.learn_units(*rows)
        x, r, y = (column.to(dtype) for column in rows)
        return model.to(dtype).eval(), (x, r, y)

    # The readers of the story

    def test_every_reader_takes_the_story_alike(self) -> None:
        """`check_story` finds the same sites and densities in every reading, without a warning."""
        model, (x, r, _) = self.prepared()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_story(model, x, r)

    @in_doubles()
    def test_the_loss_of_fit_is_that_of_pyro(self) -> None:
        """Losses and gradients of `fit` and of Pyro's bounds, for the same draws."""
        model, (x, r, y) = self.prepared()
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        for objective in model.objectives:
            try:
                pair = model.training_pair(objective)
            except ValueError:
                continue  # an objective that this model has not
            # Where some sites are drawn and others summed out, Pyro's bounds are other ones.
            bounds = ["enum"] if pair.enumerated else ["elbo", "mean_field", "iwae"]
            skips = pair.loss is not None or (pair.enumerated and pair.sampled)
            for elbo in [] if skips else bounds[: 1 if model.shared_sites() else 3]:
                what = f"for objective {objective!r} and bound {elbo!r} the "
                both = losses(model, pair, elbo, (x[:20], r[:20], y[:20]))
                same(f"{what}loss of fit, beside Pyro's of the same draws,", *both, 1e-6)
                options: Any = {"retain_graph": True, "allow_unused": True}
                each = (torch.autograd.grad(b, [*parameters.values()], **options) for b in both)
                for name, *slopes in zip(parameters, *each, strict=True):
                    ours, by_pyro = (torch.zeros(()) if s is None else s for s in slopes)
                    same(f"{what}gradient of fit's loss in {name}", ours, by_pyro, 1e-5)

    def _few_by_brute_force(self) -> tuple[Any, Rows]:
        """A model whose predictions draw from its priors, and some rows."""
        model, (x, r, y) = self.prepared()
        if not model.reads_x:
            skip("with a prior p(z) predictions draw z from the guide")
        return model, (x[:4], r[:4], y[:4])

    def test_predictions_are_averages_over_the_program(self) -> None:
        """`predict` is the mean over draws of Pyro's program, within its Monte Carlo error."""
        model, few = self._few_by_brute_force()
        predicted = model.predict(*few[:2], num_samples=PREDICTED)
        for draws in program_draws(model, few, BRUTE_FORCE):
            mean, deviation, size = weighed(draws.predicted, draws.weights)
            error = deviation * ((1.0 + BRUTE_FORCE / PREDICTED) / size).sqrt()
            within("predict, beside the mean over draws of the program,", predicted, mean, error)

    def test_posteriors_are_those_of_importance_sampling(self) -> None:
        """Draws of `posterior` have the means of draws of the program, weighed by hand."""
        model, few = self._few_by_brute_force()
        if model.shared_sites():
            skip("a row's outcome weighs no site that all rows share, whose guide has seen it")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*effective sample size")
            found = model.posterior(*few, num_samples=POSTERIOR, progress=False)
        for draws in program_draws(model, few, BRUTE_FORCE):
            for name in set(draws.sites) & set(found):
                values, mine = draws.sites[name], found[name].double()
                middle, unit = values.nanmedian(0).values, values.std(0).nan_to_num(1.0) + 1e-3
                values, mine = (((v - middle) / unit).tanh() for v in (values, mine))
                mean, deviation, size = weighed(values, draws.given_y)
                ess = found.ess.double().reshape(-1, *(1,) * (mean.dim() - 1))
                error = deviation * (1.0 / size + 1.0 / ess).sqrt()
                what = f"the posterior mean of site {name!r}, beside that of the program,"
                within(what, mine.mean(0), mean, error)

    # Numbers

    def test_predictions_never_fall(self) -> None:
        """Not by a step of one ulp, nor a small or a large one, across calls of any size."""
        for dtype in (torch.float32, torch.float64):
            model, (x, r, _) = self.prepared(dtype, 300)
            low, levels = model.predict(x, r), model.response.r_dist() is not None
            steps = {
                "one ulp": torch.nextafter(r, torch.full_like(r, torch.inf)),
                "a millionth": r + 1e-6 * r.abs(),
                "a random step": r + torch.rand_like(r),
                "far": r + 1e4,
            }
            column = torch.randint(r.shape[1], (len(r), 1)) == torch.arange(r.shape[1])
            for how, higher in steps.items():
                higher = higher.clamp(max=1.0 - 1e-6).maximum(r) if levels else higher
                raised, high = torch.where(column, higher, r), torch.empty_like(low)
                for part in torch.randperm(len(x)).split(101):
                    high[part] = model.predict(x[part], raised[part])
                check(
                    high >= low,
                    f"{int((high < low).sum())} of {len(x)} predictions in {dtype} fall, by up to "
                    f"{(low - high).max():.1e}, when a revenue rises by {how}",
                )

    def test_a_row_has_the_same_bits_everywhere(self) -> None:
        """A prediction does not depend on the other rows of a call, and is that of `surface`."""
        model, (x, r, _) = self.prepared(torch.float32)
        whole = model.predict(x, r)
        for row in (0, 7, len(x) - 1):
            alone = model.predict(x[row : row + 1], r[row : row + 1])
            same(f"the prediction of row {row} alone, and not among others,", alone, whole[row])
        same("surface, beside predict,", model.surface(x[:5], r[:5]).diagonal(), whole[:5])

    def test_both_types_agree(self) -> None:
        """Predictions and the likelihood in float32 are those in float64 but for rounding."""
        exact, rounded = (_answers(*self.prepared(t)) for t in (torch.float64, torch.float32))
        for name, value in exact.items():
            scale = value.abs().mean().clamp(min=1.0)
            same(f"{name} in float32, beside float64,", rounded[name] / scale, value / scale, 2e-3)

    @in_doubles()
    def test_gradients_are_finite_differences(self) -> None:
        """Those of the density of the program, in its parameters and in x and r."""
        model, (x, r, y) = self.prepared()
        # Off the knots that maps have learned from the rows, which are kinks.
        x, r, y = 0.98 * x[:20], 0.98 * r[:20], y[:20]
        program = model.training_pair(model.default_objective).program
        with torch.no_grad():
            replayed = poutine.replay(program, trace=poutine.trace(program).get_trace(x, r, y))

        def density(*_: Tensor) -> Any:
            return poutine.trace(replayed).get_trace(x, r, y).log_prob_sum()

        for name, value in {"x": x, "r": r, **dict(model.named_parameters())}.items():
            value.requires_grad_()
            try:
                gradcheck(density, (value,), fast_mode=True, check_undefined_grad=False)
            except GradcheckError as error:
                sentence = f"the gradient of the density in {name} is not its finite difference: "
                raise AssertionError(sentence + str(error)) from error

    # Copies, files and devices

    def test_copies_pickles_and_saved_models_predict_the_same_bits(self) -> None:
        """After a prediction; skips `save` where `io.recorded` and `factories` know no class."""
        model, (x, r, _) = self.prepared(torch.float32)
        known = model.predict(x, r)
        same("the prediction of a deep copy", copy.deepcopy(model).predict(x, r), known)
        same("that of a pickle", pickle.loads(pickle.dumps(model)).predict(x, r), known)
        with tempfile.TemporaryDirectory() as folder:
            try:
                save(model, f"{folder}/model", factories=self.factories)
            except TypeError as error:
                skip(f"it is not saved without io.recorded or a factory: {error}")
            saved: Any = load(f"{folder}/model", factories=self.factories)
        same("the prediction of the saved model", saved.predict(x, r), known)

    def test_a_second_device_gives_the_same_numbers(self) -> None:
        """As on the CPU, and on the device of the rows."""
        model, rows = self.prepared(torch.float32, 40)
        few: Any = tuple(column[:3] for column in rows)
        wanted = _answers(model, few)
        with self.device() as device:
            there, columns = copy.deepcopy(model).to(device), tuple(v.to(device) for v in few)
            found = _answers(there, columns)
            draws = there.posterior(*columns, num_samples=2, num_proposals=32, progress=False)
            for name, value in (found | dict(draws)).items():
                check(value.device == device, f"{name} is on {value.device}, and not on that of x")
            for name, value in found.items():
                same(f"{name} on a second device", value.cpu(), wanted[name], 1e-5)

    def test_fit_moves_every_parameter_and_keeps_them_finite(self) -> None:
        """A few epochs reach all that the objective trains."""
        model, rows = self.prepared(torch.float32)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of training that is this short
            fit(model, *rows, epochs=2, batch_size=50, progress=False)
        for name, value in model.trained_parameters(model.objective).items():
            check(value.isfinite(), f"fit leaves NaN or inf in {name}")
            check(not torch.equal(value, before[name]), f"fit does not move {name}")
