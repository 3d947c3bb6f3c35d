"""A folder holds a whole model whenever a save ends; damaged, cut or forged ones are refused."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
import torch
from disks import content, full_disk
from saved_estimators import fitted

import pyro_gcm
from pyro_gcm import GCM
from pyro_gcm.io import DamagedFile, MissingPart, read_card, signed


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / "saved")


def weights(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.safetensors")
    return path


def test_a_folder_has_no_pickle_and_the_same_bytes_for_the_same_model(tmp_path: Path) -> None:
    first, second = (pyro_gcm.save(GCM(2, 1, seed=1), tmp_path / name) for name in "ab")
    assert content(first) == content(second)
    digest = read_card(first)["weights"]
    assert set(content(first)) == {"card.json", f"weights-{digest[:16]}.safetensors"}
    for raw in content(first).values():
        with pytest.raises(Exception):  # noqa: B017, PT011
            pickle.loads(raw)


def test_a_model_is_replaced_only_when_asked_for(saved: Path) -> None:
    before, other = content(saved), GCM(2, 1, seed=2)
    with pytest.raises(
        FileExistsError, match=r"has a model: overwrite=True \(--overwrite\) replaces it"
    ):
        pyro_gcm.save(other, saved)
    assert content(saved) == before
    pyro_gcm.save(other, saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert len(content(saved)) == 2
    (saved.parent / "empty").mkdir()
    for name in ("empty", "new/inner"):  # is taken as it is, and parents are made
        assert pyro_gcm.load(pyro_gcm.save(GCM(2, 1, seed=3), saved.parent / name)).seed == 3
    (saved.parent / "link").symlink_to(saved)
    pyro_gcm.save(GCM(2, 1, seed=4), saved.parent / "link", overwrite=True)
    assert (saved.parent / "link").is_symlink()
    assert pyro_gcm.load(saved).seed == 4


def test_other_files_stay(saved: Path, tmp_path: Path) -> None:
    others = {"notes.txt": b"mine", "weights-mine.safetensors": b"mine", "data/a.csv": b"a"}
    (saved / "data").mkdir()
    for name, raw in others.items():
        (saved / name).write_bytes(raw)
    pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
    assert pyro_gcm.load(saved).seed == 2
    assert others.items() < content(saved).items()
    assert len(content(saved)) == 5
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=r"must be new or have a model, .* has a\.csv"):
            pyro_gcm.save(GCM(2, 1), saved / "data", overwrite=overwrite)
    with pytest.raises(FileExistsError, match="could not be written"):
        pyro_gcm.save(GCM(2, 1), saved / "notes.txt", overwrite=True)


def test_no_folder_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        pyro_gcm.load(tmp_path / "nothing")
    with pytest.raises(DamagedFile, match=r"card\.json .*No such file"):
        pyro_gcm.load(tmp_path)
    with pytest.raises(RuntimeError, match="cupboard"):
        pyro_gcm.load(tmp_path, device="cupboard")


def test_a_full_disk_leaves_the_old_model_whole(saved: Path) -> None:
    before = content(saved)
    for room in (0, 100, weights(saved).stat().st_size, (saved / "card.json").stat().st_size):
        with full_disk(room), suppress(OSError):
            pyro_gcm.save(GCM(2, 1, hidden=[64, 64], seed=2), saved, overwrite=True)
        assert content(saved) == before


#: Calls of the system with which files are replaced.
CALLS = ("open", "fsync", "chmod", "replace", "unlink")


def stopped(patch: pytest.MonkeyPatch, step: int, stop: Any) -> None:
    """Let `stop` come in the place of a call of the system, counted from 0."""
    calls = iter(range(1000))

    def stopping(call: Any) -> Any:
        def may_stop(*args: Any, **options: Any) -> Any:
            if next(calls) == step:
                stop()
            return call(*args, **options)

        return may_stop

    for name in CALLS:
        patch.setattr(os, name, stopping(getattr(os, name)))


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_save_that_ends_early_leaves_the_old_model_or_the_new_one(saved: Path) -> None:
    for end in (KeyboardInterrupt(), OSError(), "killed"):
        seeds = []
        for step in range(12):
            process = os.fork() if end == "killed" and hasattr(os, "fork") else None
            if process == 0:
                torch.set_num_threads(1)  # the threads of the parent are not in a child
                stopped(pytest.MonkeyPatch(), step, lambda: os._exit(9))
                pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
                os._exit(0)
            if process:
                os.waitpid(process, 0)
            elif end != "killed":
                with pytest.MonkeyPatch.context() as patch, suppress(type(end)):
                    stopped(patch, step, mock.Mock(side_effect=end))
                    pyro_gcm.save(GCM(2, 1, seed=2), saved, overwrite=True)
            seeds.append(pyro_gcm.load(saved).seed)
            pyro_gcm.save(GCM(2, 1, seed=1), saved, overwrite=True)  # which clears up
            assert len(content(saved)) == 2, step
        assert seeds == sorted(seeds)
        assert {*seeds} == {1, 2} or not hasattr(os, "fork")


def test_a_model_that_is_replaced_while_it_is_loaded_is_the_old_one_or_the_new_one(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, later = Path.read_bytes, iter([2])

    def replacing(path: Path) -> bytes:
        raw = read(path)
        if path.name == "card.json" and (seed := next(later, None)):
            pyro_gcm.save(GCM(2, 1, seed=seed), saved, overwrite=True)
        return raw

    monkeypatch.setattr(Path, "read_bytes", replacing)
    assert pyro_gcm.load(saved).seed == 2


#: What Python announces when something is executed, imported or unpickled.
EXECUTED = ("exec", "import", "pickle.find_class", "os.system", "subprocess.Popen", "marshal.loads")
#: A pickle that ends the process.
ABORT = b"cos\nabort\n(tR."
_watching: list[list[str]] = []


def _watch(event: str, arguments: Any) -> None:
    if _watching and event in EXECUTED:
        _watching[-1].append(f"{event} {arguments}")


@pytest.fixture(scope="module")
def executed() -> Iterator[list[str]]:
    """What is executed from now on."""
    sys.addaudithook(_watch)
    _watching.append([])
    yield _watching[-1]
    _watching.clear()


def flipped(raw: bytes, chance: Random) -> bytes:
    place = chance.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]


def cut(raw: bytes, chance: Random) -> bytes:
    return raw[: chance.randrange(len(raw))]


def refused(folder: Path, wanted: str, reads: Callable[[Path], Any] = pyro_gcm.load) -> None:
    with pytest.raises(DamagedFile, match=wanted) as caught:
        reads(folder)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.long(keep=("model",))
@pytest.mark.parametrize("kind", ["model", "GCMClassifier"])
def test_no_damage_is_silent(kind: str, tmp_path: Path, executed: list[str]) -> None:
    folder = pyro_gcm.save(GCM(2, 1) if kind == "model" else fitted(kind), tmp_path / "saved")
    pyro_gcm.load(folder)  # which imports what it needs
    executed.clear()
    chance = Random(0)
    for path in sorted(folder.iterdir()):
        original, name = path.read_bytes(), path.name.replace(".", r"\.")
        random = (damage(original, chance) for damage in (flipped, cut) for _ in range(150))
        for damaged in (*random, original + b"\n", b"", ABORT):
            path.write_bytes(damaged)
            refused(folder, name)
        path.unlink()
        refused(folder, name)
        path.write_bytes(original)
    assert not executed


# Forged folders, whose digests fit


def forge(folder: Path, card: Any, weights: bytes | None = None) -> None:
    """Write a card with a digest that fits, and other weights."""
    if weights is not None:
        card = {**card, "weights": hashlib.sha256(weights).hexdigest()}
        (folder / f"weights-{card['weights'][:16]}.safetensors").write_bytes(weights)
    (folder / "card.json").write_bytes(signed(card))


def gcm(**arguments: Any) -> dict[str, Any]:
    return {"type": "models.GCM", "arguments": {"x_dim": 2, "r_dim": 1, **arguments}}


CARDS_AS_BYTES = {
    b"[]\n": "",
    b'{\n "format": NaN\n}\n': "not JSON compliant",
    b'{\n "format": 1,\n "format": 1\n}\n': "was changed",
    b'{"format": 1}': "was changed",
    b"[" * 100_000: "recursion",
}
ARCHITECTURES: list[tuple[Any, str]] = [
    ({"type": "os.system", "arguments": {}}, "no class is registered as"),
    (gcm(code="1"), "GCM has no argument 'code'"),
    (gcm(x_dim=3), r"size mismatch for .*shape torch.Size\(\[16, 2\]\)"),
    (gcm(prior="mixture"), "does not fit the weights: KeyError '.*'"),
    ({"type": "nets.Identity", "arguments": {}, "frozen": []}, "tensor .* belongs to nothing"),
    (gcm(prior={"import": "os"}), "unknown keys"),
    ({"type": "models.GCM", "data": {}, "parts": {}}, "saved_state"),
]


def test_a_forged_card_and_weights_that_are_a_pickle_are_refused(saved: Path) -> None:
    card = read_card(saved)
    forge(saved, {**card, "format": 2})
    refused(saved, r"card\.json.* has format 2, and this version reads 1")
    for architecture, wanted in ARCHITECTURES:
        forge(saved, {**card, "architecture": architecture, "class": architecture["type"]})
        refused(saved, rf"card\.json.*{wanted}")
    for name in ("torch", "__builtins__"):
        forge(saved, {**card, "architecture": gcm(cost_family={"distribution": name})})
        with pytest.raises(MissingPart, match=f"cost_family='{name}' is unknown"):
            pyro_gcm.load(saved)
    forge(saved, card, ABORT)
    refused(saved, "weights-.* Error while deserializing")
    for raw, wanted in CARDS_AS_BYTES.items():
        (saved / "card.json").write_bytes(raw)
        refused(saved, rf"card\.json .*{wanted}", read_card)


#: What stands in the place of a value of a forged card.
FORGED: list[Any] = [None, True, -1, 10**30, "text", [], {}, [[]], {"tensor": "x"}, {"same_as": ""}]


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a tree are."""
    yield place
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from places(node[key], (*place, key))


def forgeries(tree: Any) -> Iterator[Any]:
    """Other values high up, and anywhere one that is gone or is another one."""
    every, chance = [*places(tree)][1:], Random(0)
    changes = [(place, value) for place in every if len(place) < 4 for value in (-1, [])]
    changes += [(place, chance.choice([*FORGED, "gone"])) for place in chance.choices(every, k=40)]
    for place, value in changes:
        changed = copy.deepcopy(tree)
        node = functools.reduce(lambda node, key: node[key], place[:-1], changed)
        if value == "gone":
            node.pop(place[-1])
        else:
            node[place[-1]] = value
        yield changed


@pytest.mark.long(keep=("model", "GCMSurvival"))
@pytest.mark.parametrize("kind", ["model", "GCMClassifier", "GCMSurvival", "IGCMRegressor"])
def test_a_forged_tree_is_a_damaged_file_or_one_that_might_have_been_saved(
    kind: str, tmp_path: Path
) -> None:
    folder = pyro_gcm.save(GCM(2, 1) if kind == "model" else fitted(kind), tmp_path / "saved")
    card, refusals = read_card(folder), 0
    for tree in forgeries(card["architecture"]):
        forge(folder, {**card, "architecture": tree})
        try:
            pyro_gcm.load(folder)
        except (DamagedFile, MissingPart):
            refusals += 1
    assert refusals > 15
