"""What is installed and imported: types, licence, light imports, scripts of users."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path
from typing import get_args

import pytest

import pyro_gcm

ROOT = Path(pyro_gcm.__file__).parent.parent
BUILD = "from hatchling.build import build_sdist as s, build_wheel as w; s('dist'); w('dist')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of two builds of the same files, in two places and at two times."""
    folders = []
    for number in (1, 2):
        copy = tmp_path_factory.mktemp("build") / ("checkout" * number)
        shutil.copytree(ROOT / "pyro_gcm", copy / "pyro_gcm", copy_function=shutil.copyfile)
        for path in filter(Path.is_file, ROOT.iterdir()):
            shutil.copyfile(path, copy / path.name)
        for path in copy.rglob("*"):
            os.utime(path, (1e9 * number, 1e9 * number))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run([sys.executable, "-c", BUILD], cwd=copy, env=environment, check=True)
        folders.append(copy / "dist")
    return folders


@pytest.mark.long(keep=0)
def test_a_build_has_the_same_bytes_anywhere_and_the_package_alone(built: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in f.iterdir()} for f in built)
    name = f"pyro_gcm-{pyro_gcm.__version__}"
    assert sorted(first) == [f"{name}-py3-none-any.whl", f"{name}.tar.gz"]
    assert first == second
    assert all(len(raw) < 1_000_000 for raw in first.values())
    with zipfile.ZipFile(built[0] / f"{name}-py3-none-any.whl") as wheel:
        names, info = wheel.namelist(), f"{name}.dist-info"
        metadata = BytesParser().parsebytes(wheel.read(f"{info}/METADATA"))
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
    assert {name.partition("/")[0] for name in names} == {"pyro_gcm", info}
    package = {name.removeprefix("pyro_gcm/") for name in names if name.startswith("pyro_gcm/")}
    kinds = {name for name in package if not name.endswith(".py")}
    assert kinds == {"py.typed", "data/datasheets.md", "data/sets.json", "report/page.html"}
    modules = (ROOT / "pyro_gcm").rglob("*.py")
    assert package - kinds == {m.relative_to(ROOT / "pyro_gcm").as_posix() for m in modules}
    assert f"{info}/licenses/LICENSE" in names
    assert metadata["Version"] == pyro_gcm.__version__
    page = metadata.get_payload()
    assert "a Pyro library for monotone probabilities" in page
    assert not re.findall(r"\]\((?!https://)[^)]*\)", page)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "pyro-gcm = pyro_gcm.cli:main" in scripts
    with tarfile.open(built[0] / f"{name}.tar.gz") as archive:
        parts = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    assert parts >= {"pyro_gcm", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    assert not parts & {"tests", "notebooks", "reproduce", "docs"}


def test_a_release_has_one_version_and_one_date() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {pyro_gcm.__version__}\n" in citation
    (date,) = re.findall(r"^date-released: (\S+)$", citation, flags=re.MULTILINE)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{pyro_gcm.__version__}] - {date}\n" in changes


#: One after the other; the first is the import alone.
CALLS = [
    "",
    "GCM(3, 2).predict(x, r)",
    "GCM(3, 2, alternatives=2).surface(x, r)",
    "fit(GCM(3, 2), x, r, y, epochs=2, validation=0.2, progress=False)",
    "baselines.fit(baselines.MLP(3, 2), x, r, y, epochs=2, progress=False)",
]
#: Modules and the CPU time of their import on one machine.
SLOW = {"sympy": "0.3 s", "torch._dynamo": "1.0 s", "pandas": "0.2 s", "matplotlib": "0.2 s"}
#: What baselines need not, either.
HEAVY = {"pyro", "pandas", "matplotlib", "scipy", "sklearn", "pooch", "arviz", "joblib"}
CODE = f"""
import importlib, pkgutil, sys, types, warnings
import torch
allowed = {{*sys.modules}}

def forget():
    for loaded in [name for name in sys.modules if name.split(".")[0] == "pyro_gcm"]:
        del sys.modules[loaded]

# The package is replaced by an empty one, since its own __init__ may import more.
package = types.ModuleType("pyro_gcm")
package.__path__ = [{str(Path(pyro_gcm.__file__).parent)!r}]
sys.modules["pyro_gcm"] = package
import pyro_gcm.audit, pyro_gcm.baselines, pyro_gcm.data, pyro_gcm.training
heavy = {HEAVY} & {{name.split(".")[0] for name in {{*sys.modules}} - allowed}}
assert not heavy, heavy

forget()
from pyro_gcm import GCM, baselines, fit
warnings.simplefilter("ignore")
x, r, y = torch.randn(20, 3), torch.randn(20, 2), torch.arange(20.0) % 2
for call in {CALLS}:
    exec(call)
    for name in {list(SLOW)}:
        assert name not in sys.modules, (name, call)

import pyro_gcm
for module in pkgutil.iter_modules(pyro_gcm.__path__):
    if module.ispkg:  # each can be imported first
        forget()
        importlib.import_module("pyro_gcm." + module.name)
"""


def test_nothing_is_imported_that_is_not_needed_and_any_package_can_be_first() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SCRIPTS = [
    Path(__file__).parent / "user_scripts" / f"{name}.py" for name in ("own_guide", "table_model")
]


def test_types_name_what_the_library_has() -> None:
    from pyro_gcm.inference.elbo import ELBOS, ElboName, ObjectiveName
    from pyro_gcm.models import GCM, IGCM, MemberGCM, build
    from pyro_gcm.responses import RESPONSES
    from pyro_gcm.training.options import SCHEDULES, ScheduleName

    own = {name for name, c in RESPONSES.items() if c.__module__.startswith("pyro_gcm.")}
    assert set(get_args(build.ResponseName)) == own
    assert get_args(build.PriorName) == build.PRIORS
    assert get_args(build.GuideName) == build.GUIDES
    assert get_args(ElboName) == tuple(ELBOS)
    assert {*get_args(ScheduleName)} == {"default", *SCHEDULES}
    objectives = {name for model in (GCM, IGCM, MemberGCM) for name in model.objectives}
    assert {*get_args(ObjectiveName)} == objectives


@pytest.mark.long(keep=0)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_a_user_runs(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
