"""The spaces of the search: defaults inside them, and fits that stop early."""

import json

import pytest
import torch
from toys import toy

from pyro_gcm.models.members import MemberSettings
from reproduce.methods import METHODS, Rows, spaces
from reproduce.methods.spaces import SEARCHED
from reproduce.runs import as_json

#: Boosters are tried on both responses, networks on one.
CASES = [
    (method, response)
    for method, entry in SEARCHED.items()
    for response in ("binary", "continuous")
    if response == "continuous" or not METHODS[method].density
]


@pytest.mark.long(
    keep=("Members, default-continuous", "LightGBM-binary", "HistGradientBoosting-continuous")
)
@pytest.mark.parametrize(("method", "response"), CASES)
def test_every_method_has_its_default_in_the_space_and_stops_early(method, response):
    import optuna

    entry, density = SEARCHED[method], METHODS[method].density
    pytest.importorskip(METHODS[method].package)
    if entry.settings:
        study = optuna.create_study()
        study.enqueue_trial(entry.default)
        trial = study.ask()
        proposed = entry.space(trial, 100)
        assert entry.default.items() <= proposed.items()
        assert density or proposed == entry.default
        assert trial.params == entry.default  # and no warning that it is out of range
    faster = {} if density else {"learning_rate": 0.3}
    settings = json.loads(as_json({**entry.default, **faster}))
    dataset = toy(rows=150 if density else 300, response=response)
    rows, stop = (
        Rows(dataset.x[part], dataset.r[part], dataset.y[part], response)
        for part in (slice(-50), slice(-50, None))
    )
    model, rounds = entry.fit(rows, stop, settings, 0)
    assert 1 <= rounds <= 100 if density else 1 < rounds < 300
    wanted = 2 if density else rounds
    again, same = entry.fit(rows, wanted, settings, 0)
    assert same == wanted
    found, other = (each.predict(stop.x, stop.r) for each in (model, again))
    if density:
        assert not torch.equal(found, other)
        assert torch.corrcoef(torch.stack([found, stop.y.float()]))[0, 1] > 0.5
    else:
        torch.testing.assert_close(found, other, rtol=0, atol=1e-5)


def test_members_of_the_search_are_those_of_the_library_where_nothing_was_chosen():
    sizes = 5_000, 9, 4
    assert spaces.member_settings({}, *sizes) == MemberSettings.for_table(*sizes)
    chosen = {"width factor": 2.0, "epochs factor": 0.5, "event": "6x4", "members": 16}
    changed = spaces.member_settings(chosen, *sizes)
    assert (changed.alternatives, changed.costs, changed.members) == (6, 4, 16)
    assert changed.width == 2 * MemberSettings.for_table(*sizes).width
