"""The kinds of models whose numbers are kept in `tests/golden` are those that are saved here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "golden"))
