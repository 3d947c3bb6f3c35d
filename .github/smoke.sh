#!/usr/bin/env bash
# The installed package from the command line, in an empty folder: a table, a model, its predictions.
set -euo pipefail
cd "$(mktemp -d)"

python - <<'PYTHON'
import csv
import math
import random

random.seed(0)
with open("loans.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["income", "debt", "job", "default"])
    for _ in range(500):
        income, debt = round(random.lognormvariate(10, 0.6)), round(random.uniform(0, 50), 1)
        score = 0.08 * debt - 1.2 * math.log(income) + 10 + random.gauss(0, 1)
        job = random.choice(["clerk", "farmer", "smith"])
        rows.writerow([income, debt, job, "yes" if score > 0 else "no"])
PYTHON

run() {
  local start=$SECONDS
  echo "\$ $*"
  "$@"
  echo "# $((SECONDS - start)) s"
}
run pyro-gcm --version
run pyro-gcm fit loans.csv --target default --increasing debt --decreasing income --test-share 0.2 --epochs 20 --out model
run pyro-gcm info model
run pyro-gcm audit model loans.csv --pairs 2000
run pyro-gcm required model loans.csv --column debt --probability 0.3 --below --out debts.csv
run pyro-gcm predict model loans.csv --bands --out scores.csv
[[ $(wc -l <scores.csv) -eq 501 ]]
