import ssl
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from kcr_devcluster.testing.controlplane import Assets, apiserver_command, etcd_command, find_assets, write_secrets


def test_nothing_is_started_without_the_variable() -> None:  # TK-11
    assert find_assets({}) is None
    assert find_assets({"KUBEBUILDER_ASSETS": ""}) is None


def test_programs_are_found_under_their_usual_names(tmp_path: Path) -> None:  # TK-11
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).touch()
    expected = Assets(tmp_path / "etcd", tmp_path / "kube-apiserver")
    assert find_assets({"KUBEBUILDER_ASSETS": str(tmp_path)}) == expected


def test_folder_without_the_programs_is_told(tmp_path: Path) -> None:  # TK-11
    (tmp_path / "etcd").touch()
    with pytest.raises(FileNotFoundError, match=f"KUBEBUILDER_ASSETS names {tmp_path}, which has no kube-apiserver"):
        find_assets({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_etcd_listens_on_loopback_and_writes_into_its_folder(tmp_path: Path) -> None:  # TK-11
    assert etcd_command(Path("/bin/etcd"), tmp_path, 2379) == [
        "/bin/etcd",
        f"--data-dir={tmp_path}",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync=true",
    ]


def test_apiserver_is_told_all_it_needs(tmp_path: Path) -> None:  # TK-11
    command = apiserver_command(Path("/bin/kube-apiserver"), tmp_path, 6443, 2379)
    assert command[0] == "/bin/kube-apiserver"
    flags = dict(argument.split("=", 1) for argument in command[1:])
    assert flags["--etcd-servers"] == "http://127.0.0.1:2379"
    assert (flags["--bind-address"], flags["--secure-port"]) == ("127.0.0.1", "6443")
    assert flags["--authorization-mode"] == "RBAC"
    assert flags["--disable-admission-plugins"] == "ServiceAccount"
    files = {Path(value).name for value in flags.values() if value.startswith(f"{tmp_path}/")}
    write_secrets(tmp_path, "token")
    assert files == {path.name for path in tmp_path.iterdir()}


def test_secrets_are_of_the_forms_the_server_reads(tmp_path: Path) -> None:  # TK-11
    authority = write_secrets(tmp_path, "t0ken")
    ssl.create_default_context(cadata=authority).load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    assert (tmp_path / "tokens.csv").read_text() == 't0ken,admin,admin,"system:masters"\n'
    private = load_pem_private_key((tmp_path / "accounts.key").read_bytes(), None)
    public = load_pem_public_key((tmp_path / "accounts.pub").read_bytes())
    assert private.public_key() == public
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
