"""What the README shows runs as it stands."""

import re
from pathlib import Path

import pyro
import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def clean_store():
    with pyro.get_param_store().scope():
        yield


def test_python_examples_run(clean_store, capsys):
    examples = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) == 2
    namespace: dict = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), namespace)
    surface = namespace["model"].surface(namespace["x"][:4], namespace["bids"])
    assert (surface.diff(dim=1) >= 0).all()
    assert "[100, 4, 2]" in capsys.readouterr().out.replace("torch.Size(", "").replace(")", "")


def test_the_first_lines_are_the_two_commands():
    commands = re.findall(r"```bash\n(.*?)\n```", README, flags=re.DOTALL)
    setup = "python -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    assert commands[0] == setup + '".[reproduce]" && python -m reproduce quantile'
    assert commands[1] == setup + '".[test]" && python -m pytest'
