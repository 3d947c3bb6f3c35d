"""A model on a device is saved as on the CPU, and loaded onto a device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pyro_gcm
from pyro_gcm import GCM, IGCM, MemberGCM


@pytest.mark.parametrize(("kind", "prior"), [(MemberGCM, None), (GCM, "flow"), (IGCM, "mixture")])
def test_a_model_is_saved_from_a_device_and_loaded_onto_it(
    kind: type, prior: str, device: torch.device, tmp_path: Path
) -> None:
    model, x, r = kind(3, 2, prior=prior), torch.randn(5, 3), torch.randn(5, 2)
    pyro_gcm.save(model, tmp_path / "from the CPU")
    wanted = model.predict(x, r)
    pyro_gcm.save(model.to(device), tmp_path / "from the device")
    raw = [(path / "weights.safetensors").read_bytes() for path in sorted(tmp_path.iterdir())]
    assert raw[0] == raw[1]
    loaded = pyro_gcm.load(tmp_path / "from the device", device=device)
    assert {value.device for value in loaded.state_dict().values()} == {device}
    torch.testing.assert_close(loaded.predict(x, r), wanted, rtol=0, atol=5e-7)
