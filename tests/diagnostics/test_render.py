"""The drawn graph is the graph of the paper, because it is the graph of the program."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pyro.poutine as poutine
import pytest
import torch
from pyro.infer.inspect import get_model_relations
from torch import Tensor, nn

from pyro_gcm import GCM, IGCM
from pyro_gcm.diagnostics.render import render_model
from pyro_gcm.inference import collapse, conditional
from pyro_gcm.nets import Conditional

FIGURE_4 = "z>x z>c w>r x>r c>y r>y"
# Figure 5, and k>x of the text, p(x|z, k).
FIGURE_5 = "z>x z>c k>x k>r x>r c>y k>y"


@pytest.fixture(autouse=True)
def empty_folder_without_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("graphviz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)


def edges(model: Any, having: str = "", **options: Any) -> set[str]:
    """Arrows whose options contain `having`, as "from>to"."""
    found = re.findall(
        r"^\s*(\w+) -> (\w+)(.*)$", render_model(model, **options).source, re.MULTILINE
    )
    assert len(found) == len({arrow[:2] for arrow in found})
    return {f"{start}>{end}" for start, end, how in found if having in how}


def circles(model: Any, **options: Any) -> dict[str, str]:
    """The names of the circles, by what they are."""
    drawn = re.findall(
        r'label=(\w+) fillcolor=(\w+) shape=ellipse style="?([a-z,]+)',
        render_model(model, **options).source,
    )
    kinds = {("gray", "filled"): "given", ("white", "filled"): "latent"}
    found: dict[str, str] = dict.fromkeys([*kinds.values(), "deterministic"], "")
    for name, *how in drawn:
        found[kinds.get(tuple(how), "deterministic")] += name
    return found


#: A view, the options of a model, and the arrows.
ARROWS: list[tuple[type, str, dict[str, Any], str]] = [
    (GCM, "model", {"prior": "standard"}, FIGURE_4),
    (GCM, "model", {}, FIGURE_4.replace("z>x", "x>z")),
    (IGCM, "model", {"prior": "standard"}, FIGURE_5),
    (IGCM, "model", {}, FIGURE_5.replace("z>x", "x>z").replace("k>x ", "")),
    (IGCM, "model", {"kernel_prior": "conditional"}, "x>z x>k z>c k>r x>r c>y k>y"),
    (GCM, "model", {"alternatives": 2, "costs": 3, "prior": "standard"}, FIGURE_4),
    (IGCM, "model", {"alternatives": 2, "costs": 3, "prior": "standard"}, FIGURE_5),
    *((GCM, "model", {"prior": prior}, FIGURE_4.replace("z>x", "x>z"))
      for prior in ("laplace", "mixture", "categorical", "flow")),
    (GCM, "model", {"cost_family": "logistic", "prior": "standard"}, FIGURE_4),
    # Infinite costs are a function of x; a continuous y has a threshold that is one, too.
    (GCM, "model", {"p0": "conditional", "prior": "standard"}, FIGURE_4 + " x>c"),
    (GCM, "model", {"response": "continuous", "prior": "standard"}, FIGURE_4 + " x>y z>y"),
    # Levels come from nowhere, and no draw of c enters a quantile.
    (GCM, "model", {"r_dim": 1, "response": "quantile"}, "x>z z>c z>y x>y r>y"),
    (GCM, "conditional", {}, "x>z z>y r>y"),
    (IGCM, "conditional", {}, "x>z x>k r>k z>y k>y"),
    (GCM, "conditional", {"prior": "standard"}, "z>y r>y"),  # the literal loss never reads x
    (GCM, "guide", {}, "x>z"),
    (GCM, "guide", {"guide": "posterior_flow"}, "x>z r>z y>z"),
    (GCM, "guide", {"prior": "standard"}, "x>z"),
    (IGCM, "guide", {}, "x>z x>k r>k"),
    (IGCM, "guide", {"kernel_guide": "posterior"}, "x>z x>k r>k y>k"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "view", "options", "wanted"), ARROWS)
def test_arrows_are_those_of_the_paper_or_of_what_is_trained_and_read(
    kind: type, view: str, options: dict[str, Any], wanted: str
) -> None:
    model = kind(**{"x_dim": 3, "r_dim": 2, **options})
    arrows = set(wanted.split())
    assert edges(model, view=view) == arrows
    assert ("edge [style=dashed]" in render_model(model, view=view).source) == (view == "guide")
    if view == "conditional":
        assert ("x" in circles(model, view=view)["given"]) == ("x>" in wanted)


@pytest.mark.parametrize("prior", ["standard", "conditional"])
@pytest.mark.parametrize(
    ("kind", "latent", "event"), [(GCM, "zwc", "c>y r>y"), (IGCM, "zkc", "c>y k>y")]
)
def test_the_order_event_is_thick_and_what_is_observed_shaded_also_where_x_is_an_input(
    kind: type, latent: str, event: str, prior: str
) -> None:
    model = kind(3, 2, prior=prior).double()
    assert edges(model, "penwidth=3") == set(event.split())
    assert circles(model) == {"given": "xry", "latent": latent, "deterministic": ""}


def plain(data: Tensor, spread: Tensor, scale: Tensor, unused: Tensor | None = None) -> None:
    weight = pyro.param("weight", torch.tensor(1.0))
    rows = pyro.plate("rows", 3, dim=-2)
    mean = pyro.sample("mean", dist.Normal(0.0, spread))
    with pyro.plate("columns", 2, dim=-1, subsample_size=2):
        effect = pyro.sample("effect", dist.Normal(weight * mean, 1.0))
        with rows:
            total = pyro.deterministic("total", mean + effect)
            pyro.sample("data_given", dist.LogNormal(total, spread * scale), obs=data)


def test_a_plain_program_is_drawn_with_its_inputs_plates_and_deterministic_sites() -> None:
    """Of the data only the shape matters: no log-normal value is negative."""
    arguments = -torch.ones(3, 2), torch.tensor(1.0), torch.ones(3, 1), torch.tensor(1.0)
    source = render_model(plain, model_args=arguments).source.expandtabs(2)
    assert set(re.findall(r"^  (\w+ -> \w+)$", source, re.MULTILINE)) == {
        "spread -> mean", "mean -> effect", "mean -> total", "effect -> total",
        "spread -> data_given", "scale -> data_given", "total -> data_given",
    }  # fmt: skip
    found = re.search(r"_columns {.*=effect.*_rows {(.*?) }\n  }", source, re.DOTALL)
    assert found is not None
    assert re.findall(r"label=(\w+) fillcolor=(\w+) .*style=(\S+)]", found[1]) == [
        ("total", "white", '"filled,dashed"'),
        ("data_given", "gray", "filled"),
        ("scale", "gray", "filled"),
    ]
    outside = source[: source.index("subgraph")]
    assert re.findall(r"label=(\w+) fillcolor=(\w+)", outside) == [
        ("spread", "gray"), ("mean", "white"),
    ]  # fmt: skip


def test_pyro_finds_what_the_order_event_reads() -> None:
    rows = torch.zeros(4, 3), torch.zeros(4, 2)
    relations = get_model_relations(GCM(3, 2).model, rows)["sample_sample"]
    assert set(relations["c"]) == {"z"}
    assert set(relations["y"]) - {"z"} == {"r", "c"}


def test_the_program_of_a_model_and_one_inside_handlers_are_drawn_like_the_model() -> None:
    model = GCM(3, 2)
    assert str(render_model(model.model)) == str(render_model(model))
    assert str(render_model(conditional(model))) == str(render_model(model, view="conditional"))
    assert edges(collapse(model.model)) == {"x>z", "x>r", "w>r", "z>y", "r>y"}
    observed = poutine.condition(model.model, {"z": torch.zeros(2, 4)})
    assert circles(observed)["given"] == "zxry"


def test_a_module_that_is_a_program_is_called_by_the_names_of_its_forward() -> None:
    class Regression(nn.Module):
        def forward(self, x: Tensor, y: Tensor | None = None) -> None:
            with pyro.plate("data", len(x)):
                slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
                pyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    rows = {"x": torch.ones(2), "y": torch.ones(2)}
    for program in (Regression(), poutine.block(Regression(), hide=[])):
        assert edges(program, model_kwargs=rows) == {"slope>y", "x>y"}
    assert circles(Regression(), model_kwargs=rows)["given"] == "yx"


@pytest.mark.parametrize("program", [lambda model: model, lambda model: conditional(model.model)],
                         ids=["model", "program"])  # fmt: skip
def test_nothing_is_changed(program: Callable[[Any], Any]) -> None:
    # Behind batch norm, which a run in training mode would change.
    costs = nn.Sequential(nn.BatchNorm1d(4), Conditional(dist.Normal, 4, (2,)))
    model = GCM(3, 2, cost_family=costs).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    render_model(program(model))
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(pyro.get_param_store())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(type(p) is nn.Parameter for p in model.parameters())
    assert all(part.training for part in model.modules())
    assert not any("unconstrained" in vars(p) for p in model.parameters())


def test_a_program_reads_the_store_and_leaves_it_as_it_was() -> None:
    def program() -> None:
        pyro.param("new", torch.tensor(1.0))
        pyro.sample("z", dist.Normal(pyro.param("mine"), 1.0))

    pyro.param("mine", torch.tensor(2.0))
    mine = pyro.get_param_store()._params["mine"]
    render_model(program)
    assert list(pyro.get_param_store()) == ["mine"]
    assert pyro.get_param_store()._params["mine"] is mine


def test_what_is_not_given_is_drawn_as_latent() -> None:
    assert circles(GCM(3, 2, prior="standard"), model_kwargs={"size": 2})["given"] == ""
    only_x = {"x": torch.zeros(2, 3)}
    assert circles(GCM(3, 2), model_kwargs=only_x)["given"] == "x"
    assert edges(GCM(3, 2), model_kwargs=only_x) == edges(GCM(3, 2))
    with pytest.raises(ValueError, match="x has 4 columns, the model was built for x_dim=3"):
        render_model(GCM(3, 2), model_args=(torch.zeros(2, 4),))


def test_what_to_install_is_said_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'pyro-gcm\[graphviz\]'.*program 'dot'"):
        render_model(GCM(3, 2))


@pytest.mark.parametrize("name", ["graph.dot", "graph.gv"])
def test_source_is_written_without_dot(name: str, tmp_path: Path) -> None:
    source = render_model(GCM(3, 2), path=name).source
    assert (tmp_path / name).read_text(encoding="utf-8") == source


def test_an_image_is_what_dot_makes_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dot = tmp_path / "dot"
    dot.write_text('#!/bin/sh\necho "$@"; cat\n')
    dot.chmod(dot.stat().st_mode | stat.S_IXUSR)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    graph = render_model(GCM(3, 2), path=str(tmp_path / "graph.svg"))
    written = (tmp_path / "graph.svg").read_text(encoding="utf-8")
    assert written == f"-Kdot -Tsvg\n{graph.source}"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path": "graph.svg"}, RuntimeError, r"path='graph\.svg' needs.*'dot'.*: install"),
        ({"path": "graph.jpg"}, ValueError, r"path must end in one of \['\.dot', .*'graph\.jpg'"),
        ({"view": "joint"}, ValueError, r"view must be one of .*got 'joint'"),
        ({"view": "guide"}, ValueError, "model must be an object with a guide.*got function"),
        ({"model_args": (1, 2)}, ValueError, "model_args do not fit the program: too many"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_before_the_program_runs(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    runs = []

    def program() -> None:
        runs.append(1)

    with pytest.raises(error, match=message):
        render_model(program, **options)
    assert not runs
    assert not list(tmp_path.iterdir())


def test_what_is_no_program_or_has_no_sites_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model must be a Pyro program.*got int"):
        render_model(3)
    with pytest.raises(ValueError, match="no sample sites"):
        render_model(GCM(3, 2, prior="categorical"), view="guide")
