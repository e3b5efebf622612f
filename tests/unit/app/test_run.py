"""What `kcr run` is made of, by its options."""

from msgspec.structs import replace

from kcr.app.options import ProgramOptions
from kcr.app.run import make_elector
from kcr.client import ClusterConfig


def test_dry_run_takes_no_lease() -> None:
    config = ClusterConfig(server="https://127.0.0.1:6443", namespace="default")
    options = ProgramOptions(leader_elect=True, leader_elect_resource_name="web")
    elector = make_elector(options, config)
    assert elector is not None
    assert elector.config.key == ("default", "web")
    assert make_elector(replace(options, dry_run="server"), config) is None
