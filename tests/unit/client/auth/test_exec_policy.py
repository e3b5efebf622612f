"""Which credential plugins of kubeconfigs may run: by option, by the user's kuberc, and by answer on a terminal."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcr.app.options import ProgramOptions
from kcr.app.run import load_again
from kcr.client import load_config
from kcr.client.auth.exec_policy import ExecPolicy
from kcr.client.credentials import PluginCredentials, PluginSpec
from kcr.errors import ConfigError, TransportError

PLUGIN = "--region eu --client-secret=… --token …"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home whose kubeconfig names a program in its folder `bin`."""
    arguments = ["--region", "eu", "--client-secret=hidden", "--token", "hidden"]
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://a.example:6443"}}],
        "users": [{"name": "a", "user": {"exec": {"command": "plugin", "args": arguments}}}],
    }
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(config))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "plugin").touch(mode=0o700)
    return tmp_path


def kuberc(home: Path, policy: str, *allowed: dict[str, str]) -> Path:
    preference: dict[str, Any] = {"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"}
    preference |= {"credentialPluginPolicy": policy} if policy else {}
    preference |= {"credentialPluginAllowlist": list(allowed)} if allowed else {}
    path = home / ".kube" / "kuberc"
    path.write_text(yaml.safe_dump(preference))
    return path


def is_allowed(home: Path, policy: ExecPolicy | None = None, **environ: str) -> bool:
    """Return whether the plugin may run; raises the refusal."""
    found = load_config(exec_plugins=policy, environ={"HOME": str(home), "PATH": str(home / "bin"), **environ})
    return isinstance(found.credentials, PluginCredentials)


def refusal(home: Path, policy: ExecPolicy | None = None, **environ: str) -> str:
    """Return why the plugin may not run, without the beginning that names it."""
    with pytest.raises(ConfigError) as refused:
        is_allowed(home, policy, **environ)
    shown = f"the credential plugin {home}/bin/plugin {PLUGIN}"
    begin = f"kubeconfig {home}/.kube/config, context a, user a: {shown} may not run: "
    assert str(refused.value).startswith(begin)
    return str(refused.value).removeprefix(begin)


def test_plugins_run_unless_something_forbids_it(home: Path) -> None:
    assert is_allowed(home)
    kuberc(home, "")
    assert is_allowed(home)
    kuberc(home, "AllowAll")
    assert is_allowed(home)


def test_never_refuses_whatever_the_kuberc_says(home: Path) -> None:
    kuberc(home, "AllowAll")
    assert refusal(home, "never") == (
        "--exec-plugins is never: use another kubeconfig, or --exec-plugins=always"
    )  # fmt: skip


def test_kuberc_denies_all_plugins(home: Path) -> None:
    path = kuberc(home, "DenyAll")
    assert refusal(home) == (
        f"credentialPluginPolicy is DenyAll in {path}: change it, or say --exec-plugins=always"
    )  # fmt: skip
    assert is_allowed(home, "always")


@pytest.mark.parametrize("field", ["name", "command"])
def test_kuberc_allows_listed_plugins_by_name_and_path(home: Path, field: str) -> None:
    path = kuberc(home, "Allowlist", {field: "other"})
    plugin = home / "bin" / "plugin"
    assert refusal(home) == (
        f"credentialPluginAllowlist in {path} does not have {plugin}: add it, or say --exec-plugins=always"
    )
    kuberc(home, "Allowlist", {field: "plugin"})
    assert is_allowed(home)
    kuberc(home, "Allowlist", {field: "other"}, {field: str(plugin)})
    assert is_allowed(home)
    kuberc(home, "Allowlist", {field: "/usr/bin/plugin"})
    assert "does not have" in refusal(home)


@pytest.mark.parametrize("environ", [{"KUBERC": "off"}, {"KUBECTL_KUBERC": "false"}, {"KUBERC": "other"}])
def test_kuberc_is_that_of_the_environment(
    home: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kuberc(home, "DenyAll")
    monkeypatch.chdir(home)
    (home / "other").write_text("kind: Preference\n")
    assert is_allowed(home, None, **environ)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("a: [", "expected the node content", id="no-yaml"),
        pytest.param("kind: Preference\ncredentialPluginPolicy: Deny", "Invalid enum value 'Deny'", id="policy"),
        pytest.param(
            "kind: Preference\ncredentialPluginAllowlist: [{name: a}]", "credentialPluginAllowlist needs the policy",
            id="list-without-policy",
        ),
    ],
)  # fmt: skip
def test_kuberc_that_cannot_be_read_allows_nothing(home: Path, text: str, fault: str) -> None:
    path = home / ".kube" / "kuberc"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"kuberc {path}: .*{fault}.*: correct it, or say --exec-plugins=always"):
        is_allowed(home)


class Terminal(io.StringIO):
    """Text that is typed, or shown, on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "allowed"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False)])
def test_user_is_asked_on_a_terminal(home: Path, answer: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kuberc(home, "DenyAll")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", shown)
    if allowed:
        assert is_allowed(home, "ask")
    else:
        assert refusal(home, "ask") == "you did not allow it: use another kubeconfig, or --exec-plugins=always"
    assert shown.getvalue() == (
        f"kubeconfig {home}/.kube/config, context a, user a: "
        f"run the credential plugin {home}/bin/plugin {PLUGIN}? [y/N] "
    )


def test_without_a_terminal_asking_refuses(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert refusal(home, "ask") == (
        "--exec-plugins is ask, and there is no terminal to ask on: say never or always"
    )  # fmt: skip


def test_subcommand_that_is_called_like_a_secret_is_shown() -> None:
    spec = PluginSpec(command="aws", args=("eks", "get-token", "--cluster-name", "a b"))
    assert spec.shown == "aws eks get-token --cluster-name 'a b'"


def rename_plugin(home: Path, **fields: object) -> None:
    """Change fields of the kubeconfig's plugin."""
    path = home / ".kube" / "config"
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"]["exec"] |= fields
    path.write_text(yaml.safe_dump(config))


@pytest.mark.asyncio
async def test_path_that_the_kubeconfig_sets_finds_no_plugin(home: Path) -> None:
    (home / "evil").mkdir()
    for folder, name in [("evil", "plugin"), ("evil", "absent")]:
        program = home / folder / name
        program.write_text(f"#!/bin/sh\n/usr/bin/touch {home}/trace\n")
        program.chmod(0o700)
    kuberc(home, "Allowlist", {"command": "plugin"}, {"command": "absent"})
    for command in ("plugin", "absent"):
        rename_plugin(home, command=command, env=[{"name": "PATH", "value": str(home / "evil")}])
        config = load_config(environ={"HOME": str(home), "PATH": str(home / "bin")})
        with pytest.raises(TransportError, match="plugin"):
            await config.credentials.current()
    assert not (home / "trace").exists()


def test_question_cannot_be_forged_by_the_kubeconfig(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    monkeypatch.setattr(sys, "stderr", shown)
    variables = [{"name": "PATH", "value": "hidden"}, {"name": "A\nB", "value": "hidden"}]
    rename_plugin(home, command="/bin/a\x1b[2K b", args=["c\nd", "\u202ee"], env=variables)
    with pytest.raises(ConfigError, match="you did not allow it"):
        is_allowed(home, "ask")
    assert shown.getvalue().endswith(
        r"run the credential plugin '/bin/a\x1b[2K b' 'c\nd' '\u202ee' with the variables A\nB, PATH? [y/N] "
    )


def test_named_kubeconfig_needs_no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    # A user that the system does not know.
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    found = load_config(environ={"KUBECONFIG": str(home / ".kube" / "config"), "PATH": str(home / "bin")})
    assert isinstance(found.credentials, PluginCredentials)
    with pytest.raises(ConfigError, match="no cluster is configured"):
        load_config(environ={})


def test_plugin_that_changed_after_the_answer_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    monkeypatch.setattr(sys, "stderr", Terminal())
    path = str(home / ".kube" / "config")
    confirmed = load_config(path, exec_plugins="ask")
    options = ProgramOptions(kubeconfig=path, exec_plugins="ask")
    assert load_again(options, confirmed).credentials is not confirmed.credentials
    rename_plugin(home, args=["other"])
    with pytest.raises(ConfigError, match="no longer the one you allowed"):
        load_again(options, confirmed)
