"""What to do with a probability: which bid or price pays best, and how to spend a budget.

`first_price`, `second_price` and `posted_price` find the best bid or price of each row, and how far
from the best it can be at most; `allocate` spends a budget over rows; `cost_threshold` is the
probability from which on to act on an event; `Trials` asks for the trial that tells most.
"""

from pyro_gcm.decisions.auctions import first_price, posted_price, second_price
from pyro_gcm.decisions.budgets import Allocation, allocate, allocate_by_multiplier
from pyro_gcm.decisions.thresholds import cost_threshold
from pyro_gcm.decisions.trials import Trials

__all__ = [
    "Allocation",
    "Trials",
    "allocate",
    "allocate_by_multiplier",
    "cost_threshold",
    "first_price",
    "posted_price",
    "second_price",
]
