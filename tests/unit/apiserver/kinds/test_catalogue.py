"""The catalogue of kinds: their strategies are imported when they are first used."""

import subprocess
import sys

import pytest

from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import Strategy


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.type.display))
def test_strategy_of_every_kind_can_be_made(kind: Kind) -> None:
    assert isinstance(kind.strategy, Strategy)
    assert kind.strategy is kind.strategy


def test_server_imports_no_strategy_before_its_kind_is_used() -> None:
    code = "import sys; from kcr.testing import FakeManager; FakeManager(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    kinds = "kcr_devcluster.apiserver.kinds"
    assert f"{kinds}.catalogue" in loaded
    assert not {f"{kinds}.batch.job", f"{kinds}.pods.strategy", f"{kinds}.apps.deployments"} & set(loaded)
    assert "kcr_devcluster.cluster" not in loaded
