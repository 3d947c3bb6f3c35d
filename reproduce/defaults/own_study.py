"""A method or a data set of your own beside all others, each with its defaults, on random splits.

`--methods my_module:my_method` names a function (rows, seed) -> model, or a class that is made so:
rows have x [n, d], r [n, m], y [n] and response ("binary" or "continuous"), and the model has
predict(x, r) -> [B], Pr(y = 1) or the mean. `--datasets my_module:my_data` names a function () ->
`pyro_gcm.data.Dataset`. Both are imported from where the command runs.
"""

from __future__ import annotations

import pandas as pd

from reproduce.defaults import untouched
from reproduce.methods import DEFAULTS, version_of
from reproduce.rendering.tables import compared
from reproduce.study import Study
from reproduce.tasks import TITLES


def report(table: pd.DataFrame) -> str:
    """Means of every metric on every data set, the best in bold."""
    parts = {str(name): rows for name, rows in table.groupby("dataset", sort=False)}
    shown = (f"{TITLES.get(n, n)}\n\n{compared(parts[n], family=False)}" for n in parts)
    return "\n\n".join(shown)


STUDY = Study(
    *("study", str(__doc__), TITLES, dict.fromkeys(DEFAULTS), untouched.run, report),
    version=version_of,
    quick={"rows": 400},
    open=True,
)
