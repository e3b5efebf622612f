"""Exec policy: whether a program that a kubeconfig names may run for its credentials.

A kubeconfig may name any program as its credential plugin, and the program runs with the rights of the user. kubectl
reads a policy for that from the user's `kuberc` since 1.35 (`credentialPluginPolicy`); without one, all plugins run.

Source: kubernetes/staging/src/k8s.io/kubectl/pkg/kuberc; client-go/plugin/pkg/client/auth/exec, PluginPolicy.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from kcr.client.credentials import PluginSpec
from kcr.errors import ConfigError
from kcr.log.lines import one_line

ExecPolicy = Literal["never", "ask", "always"]

_OPTION = "--exec-plugins=always"
_OFF = ("off", "false")


class _AllowlistEntry(msgspec.Struct):
    # The name of the field until 1.35.
    name: str = ""
    command: str = ""


class _Preference(msgspec.Struct, rename="camel"):
    """The user's preferences for kubectl, as far as they are about plugins."""

    credential_plugin_policy: Literal["", "AllowAll", "DenyAll", "Allowlist"] = ""
    credential_plugin_allowlist: Sequence[_AllowlistEntry] = ()


def check_plugin(spec: PluginSpec, origin: str, policy: ExecPolicy | None, environ: Mapping[str, str]) -> None:
    """Return when a credential plugin may run.

    Args:
        spec: The plugin.
        origin: Which kubeconfig and context name it.
        policy: `ask` asks on the terminal, in the main thread; None for the policy of the user's kuberc.
        environ: Where the kuberc and the programs are looked up.

    Raises:
        ConfigError: It may not run; the message names the plugin, the forbidding policy, and the remedy.
    """
    refused = f"{origin}: the credential plugin {spec.shown} may not run"
    match policy:
        case "never":
            raise ConfigError(f"{refused}: --exec-plugins is never: use another kubeconfig, or {_OPTION}")
        case "ask":
            _confirm_plugin(spec, origin, refused)
        case None:
            _check_kuberc(spec, refused, environ)


def _confirm_plugin(spec: PluginSpec, origin: str, refused: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"{refused}: --exec-plugins is ask, and there is no terminal to ask on: say never or always")
    variables = f" with the variables {', '.join(sorted(spec.env))}" if spec.env else ""
    sys.stderr.write(one_line(f"{origin}: run the credential plugin {spec.shown}{variables}? [y/N] "))
    sys.stderr.flush()
    with _interruptible():
        answer = sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError(f"{refused}: you did not allow it: use another kubeconfig, or {_OPTION}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt: the event loop's own handler waits for a loop that waits for the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_kuberc(spec: PluginSpec, refused: str, environ: Mapping[str, str]) -> None:
    path = _kuberc(environ)
    if path is None:
        return
    preference = _read(path)
    match preference.credential_plugin_policy:
        case "DenyAll":
            raise ConfigError(f"{refused}: credentialPluginPolicy is DenyAll in {path}: change it, or say {_OPTION}")
        case "Allowlist":
            allowed = [one.command or one.name for one in preference.credential_plugin_allowlist]
            if not any(find_program(one, environ) == spec.command for one in allowed):
                raise ConfigError(
                    f"{refused}: credentialPluginAllowlist in {path} does not have {spec.command}: add it, or say "
                    f"{_OPTION}"
                )


def _kuberc(environ: Mapping[str, str]) -> Path | None:
    """Return the file of the user's preferences, None where there is none or they are switched off."""
    named = environ.get("KUBERC", "")
    if named.lower() in _OFF or environ.get("KUBECTL_KUBERC", "").lower() == "false":
        return None
    if named:
        return Path(named)
    home = home_folder(environ)
    path = home / ".kube" / "kuberc" if home else None
    return path if path and path.exists() else None


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's home folder; None without `HOME` where the system does not know the user, as in a pod."""
    if environ.get("HOME"):
        return Path(environ["HOME"])
    try:
        return Path.home()
    except RuntimeError:
        return None


def _read(path: Path) -> _Preference:
    """Return the preferences in a file. One that cannot be read does not allow anything."""
    import yaml  # noqa: PLC0415  # few users have the file

    remedy = f"correct it, or say {_OPTION}"
    try:
        documents: list[Any] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        found = next((one for one in documents if isinstance(one, dict) and one.get("kind") == "Preference"), {})
        preference = msgspec.convert(found, _Preference)
    except OSError as error:
        raise ConfigError(f"kuberc {path}: {error.strerror}: {remedy}") from error
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"kuberc {path}: {' '.join(str(error).split())}: {remedy}") from error
    if preference.credential_plugin_allowlist and preference.credential_plugin_policy != "Allowlist":
        raise ConfigError(f"kuberc {path}: credentialPluginAllowlist needs the policy Allowlist: {remedy}")
    return preference


def find_program(command: str, environ: Mapping[str, str]) -> str:
    """Return the absolute path of a program in the folders of `PATH`; the command itself where none has it.

    A relative folder of `PATH` is passed over: the program would depend on the working directory.
    """
    found = shutil.which(command, path=environ.get("PATH", os.defpath))
    return found if found and os.path.isabs(found) else command
