"""The raw table of loans."""

from pyro_gcm.data import load_loans
from pyro_gcm.data.loaders.loan_psds import DIRECTIONS


def test_the_raw_loans_have_text_missing_values_and_both_outcomes(raw_folder):
    table, outcome = load_loans()
    assert table.shape == (45_342, 14)
    assert set(DIRECTIONS) < set(table)
    assert table["emp_length"].isna().sum() == 1_776
    assert table.drop(columns="emp_length").notna().all().all()
    assert sorted(outcome.unique()) == ["default", "paid off"]
    assert (outcome == "default").mean() == 0.5
    assert [str(table[name].dtype) for name in ("term", "purpose")] == ["category"] * 2
