"""What the page of `kcr dev` shows of the command line, and the kubeconfig of it."""

import pytest
import yaml

from kcr_devcluster.dev.page import with_debug_port, without_credentials


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        pytest.param("jobs/pi.yaml", "jobs/pi.yaml", id="file"),
        pytest.param("-", "-", id="stdin"),
        pytest.param("https://me:secret@host:8443/a.yaml?token=t", "https://host:8443/a.yaml", id="url"),
    ],
)
def test_file_is_shown_without_credentials(file: str, shown: str) -> None:
    assert without_credentials(file) == shown


def test_kubeconfig_keeps_what_it_has() -> None:
    given = {"clusters": [{"name": "kcr", "cluster": {"server": "https://127.0.0.1:1"}}], "current-context": "kcr"}
    named = yaml.safe_load(with_debug_port(yaml.safe_dump(given), "http://127.0.0.1:2", "t"))
    extension = {"name": "kcr.dev/debug", "extension": {"address": "http://127.0.0.1:2", "accessToken": "t"}}
    assert named["clusters"][0]["cluster"].pop("extensions") == [extension]
    assert named == given
