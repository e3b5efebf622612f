"""The test kit without kcr-devcluster: fakes and builders work, and the rest names the extra."""

import subprocess
import sys

WITHOUT = "import sys; sys.modules['kcr_devcluster'] = None\n"
UNIT_TEST = """
from kcr.api.core import ConfigMap
from kcr.client import Client
from kcr.testing import FakeInformer, FakeManager, FakeRecorder, FakeSource, build

manager = FakeManager(client=Client(FakeSource(ConfigMap)))
manager.informer(ConfigMap).add(build.config_map("colors"))
informer = FakeInformer(ConfigMap, build.config_map("shapes"))
print([obj.metadata.name for obj in (*manager.store(ConfigMap).list(), *informer.store.list())])
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


def test_fakes_and_builders_need_no_server() -> None:
    done = run(UNIT_TEST)
    assert (done.stdout, done.stderr) == ("['colors', 'shapes']\n", "")


NEEDY = {
    "from kcr.testing import FakeManager; FakeManager()": "FakeManager() without a client",
    "from kcr.testing import ApiServer": "kcr.testing.ApiServer",
    "from kcr.testing import VirtualClock": "kcr.testing.VirtualClock",
    "from kcr.testing import eventually": "kcr.testing.eventually",
    "from kcr.testing import simulated_cluster": "kcr.testing.simulated_cluster",
    "from kcr.testing import FaultyTransport": "kcr.testing.FaultyTransport",
}
TRY = """
for code in {codes}:
    try:
        exec(code)
    except ImportError as error:
        print(error)
"""


def test_server_without_its_package_names_the_extra() -> None:
    told = run(TRY.format(codes=[*NEEDY])).stdout.splitlines()
    assert told == [f"{name} needs the extra 'test': pip install 'kcr[test]'" for name in NEEDY.values()]


def test_fake_manager_loads_two_hundred_modules_at_most() -> None:
    code = "import sys; from kcr.testing import FakeManager; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = [name for name in loaded if name.startswith("kcr")]
    assert len(ours) <= 200
    assert "kcr_devcluster.apiserver" not in ours
