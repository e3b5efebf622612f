import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from kcr.client import load_config
from kcr.errors import ConfigError


def config(name: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"}}],
        "users": [{"name": name, "user": {"token": name}}],
        **changes,
    }


def written(folder: Path, value: object, name: str = "config") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return str(path)


def test_kubeconfig_is_read_without_kubernetes_asyncio(tmp_path: Path) -> None:
    # Its import takes 36 MB.
    path = written(tmp_path, config())
    code = f"import sys; from kcr.client import load_config; load_config({path!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kcr.client.auth.config" in loaded
    assert "kubernetes_asyncio" not in loaded


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """Return the folder of a service account."""
    folder = tmp_path / "account"
    folder.mkdir()
    trustme.CA().cert_pem.write_to_path(folder / "ca.crt")
    (folder / "token").write_text("t")
    (folder / "namespace").write_text("here\n")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_explicit_path_goes_first_home_comes_last(tmp_path: Path, account: Path) -> None:
    # CL-1.
    explicit = written(tmp_path, config("explicit"))
    listed = written(tmp_path, config("listed"), "listed")
    written(tmp_path, config("home"), ".kube/config")
    everything = {"KUBECONFIG": listed, "HOME": str(tmp_path), **POD}

    def server(path: str | None, environ: dict[str, str]) -> str:
        return load_config(path, environ=environ, account=account).server

    assert server(explicit, everything) == "https://explicit.example:6443"
    assert server(None, everything) == "https://listed.example:6443"
    del everything["KUBECONFIG"]
    assert server(None, everything) == "https://10.0.0.1:443"
    assert server(None, {"HOME": str(tmp_path)}) == "https://home.example:6443"


def test_pod_uses_the_files_of_its_account(account: Path) -> None:
    found = load_config(environ={**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, account=account)
    assert found.server == "https://[fd00::1]:443"
    assert found.namespace == "here"
    assert found.ca.path == str(account / "ca.crt")


def test_pod_needs_no_kubernetes_asyncio(account: Path) -> None:
    # ST-1.
    code = (
        "import sys, pathlib, kcr, kcr.client;"
        f"kcr.client.load_config(environ={POD!r}, account=pathlib.Path({str(account)!r}));"
        "sys.exit(any(name.startswith(('kubernetes_asyncio', 'yaml')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


def test_files_are_merged_and_the_first_word_counts(tmp_path: Path) -> None:
    first = written(tmp_path, config("one", users=[]), "first/config")
    second = written(tmp_path, config("two"), "second/config")
    both = config("one")
    third = written(tmp_path, {"users": both["users"]}, "third/config")
    environ = {"KUBECONFIG": os.pathsep.join([first, str(tmp_path / "missing"), second, third])}
    assert load_config(environ=environ).server == "https://one.example:6443"
    assert load_config(context="two", environ=environ).server == "https://two.example:6443"


def test_first_document_of_a_file_is_read_as_kubectl_does(tmp_path: Path) -> None:
    path = written(tmp_path, config("one"))
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n---\nkind: Other\n")
    assert load_config(path).server == "https://one.example:6443"


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigError, match=rf"^kubeconfig {missing} does not exist; correct its path"):
        load_config(missing)
    with pytest.raises(ConfigError, match=rf"^kubeconfig {missing} does not exist; correct KUBECONFIG"):
        load_config(environ={"KUBECONFIG": missing})
    with pytest.raises(ConfigError, match=r"Is a directory; check the path"):
        load_config(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "is not YAML: ", id="broken"),
        pytest.param("\0", "is not YAML: ", id="binary"),
        pytest.param("", "holds no configuration", id="empty"),
        pytest.param("hello", "holds no configuration", id="text"),
        pytest.param("contexts: {}", "has no current-context; it has no contexts at all", id="nothing-in-it"),
        pytest.param("clusters: [{cluster: {}}]", "clusters must be a list of entries with name", id="nameless"),
        pytest.param("users: [{name: a, user: b}]", "users must be a list of entries with name", id="no-mapping"),
    ],
)
def test_file_that_is_no_kubeconfig_says_so(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"kubeconfig {path}")
    assert "\n" not in str(caught.value)


def test_no_configuration_anywhere_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no cluster is configured: .*set KUBECONFIG to the path of a kubeconfig"):
        load_config(environ={"HOME": str(tmp_path)})
