"""The spaces of the search: defaults inside them, and fits that stop early."""

import json

import pytest
import torch
from toys import toy

from pyro_gcm.models.member_settings import MemberSettings
from reproduce import networks
from reproduce.methods import Rows
from reproduce.runs import as_json
from reproduce.spaces import SEARCHED

NETWORKS = [name for name, entry in SEARCHED.items() if entry.density]
BOOSTERS = [name for name in SEARCHED if name not in NETWORKS]


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("method", BOOSTERS)
@pytest.mark.parametrize("response", ["binary", "continuous"])
def test_every_booster_has_its_default_in_the_space_and_finds_its_trees(method, response):
    import optuna

    entry = SEARCHED[method]
    pytest.importorskip(entry.package)
    study = optuna.create_study()
    study.enqueue_trial(entry.default)
    trial = study.ask()
    assert entry.space(trial, 100, 13) == entry.default  # and no warning that it is out of range
    assert trial.params == entry.default
    settings = json.loads(as_json({**entry.default, "learning_rate": 0.3}))
    dataset = toy(rows=300, response=response)
    rows, stop = (
        Rows(dataset.x[part], dataset.r[part], dataset.y[part], response)
        for part in (slice(200), slice(200, 300))
    )
    model, rounds = entry.fit(rows, stop, settings, 0)
    assert 1 < rounds < 300
    again, same = entry.fit(rows, rounds, settings, 0)
    assert same == rounds
    columns = dataset.x, dataset.r
    torch.testing.assert_close(model.predict(*columns), again.predict(*columns), rtol=0, atol=1e-5)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("method", NETWORKS)
def test_every_network_has_its_default_in_the_space_and_stops_early(method):
    import optuna

    entry = SEARCHED[method]
    if entry.space is not None:
        study = optuna.create_study()
        study.enqueue_trial(entry.default)
        trial = study.ask()
        assert entry.default.items() <= entry.space(trial, 100, 13).items()
        assert trial.params == entry.default
    dataset = toy(rows=300, response="continuous")
    rows, stop = (
        Rows(dataset.x[part], dataset.r[part], dataset.y[part], "continuous")
        for part in (slice(200), slice(200, 300))
    )
    model, rounds = entry.fit(rows, stop, entry.default, 0)
    assert 1 <= rounds <= 100
    again, same = entry.fit(rows, 2, entry.default, 0)
    assert same == 2
    found = [m.predict(stop.x, stop.r) for m in (model, again)]
    assert not torch.equal(*found)
    assert torch.corrcoef(torch.stack([found[0], stop.y.float()]))[0, 1] > 0.5


def test_members_of_the_search_are_those_of_the_library_where_nothing_was_chosen():
    sizes = 5_000, 9, 4
    assert networks.member_settings({}, *sizes) == MemberSettings.for_table(*sizes)
    chosen = {"width factor": 2.0, "epochs factor": 0.5, "event": "6x4", "members": 16}
    changed = networks.member_settings(chosen, *sizes)
    assert (changed.alternatives, changed.costs, changed.members) == (6, 4, 16)
    assert changed.width == 2 * MemberSettings.for_table(*sizes).width
