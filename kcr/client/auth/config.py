"""Configuration loading: `--kubeconfig`, `KUBECONFIG`, the pod we run in, `~/.kube/config`.

Files are read here, and not by kubernetes-asyncio: its import takes 36 MB and a quarter of a second, and its idea of
the current context is not kubectl's (ST-1).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcr.arguments import checked
from kcr.client.auth.exec_policy import ExecPolicy, home_folder
from kcr.client.auth.kubeconfig import Entry, Merged, resolve
from kcr.client.cluster_config import ClusterConfig, PemSource
from kcr.client.credentials import TokenFile
from kcr.client.wire.connections import proxy_for
from kcr.errors import ConfigError

# The lists of a kubeconfig, and what their entries have beside a name.
_ENTRIES = (("contexts", "context"), ("clusters", "cluster"), ("users", "user"))
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@checked
def load_config(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    exec_plugins: ExecPolicy | None = None,
    environ: Mapping[str, str] | None = None,
    account: Path = _ACCOUNT,
) -> ClusterConfig:
    """Return the configuration of the cluster to talk to.

    Args:
        kubeconfig: A path; takes precedence over everything else.
        context: The context in the kubeconfig; None for its current one.
        exec_plugins: Whether a program that the kubeconfig names for its credentials may run: `never`, `always`, or
            `ask` on the terminal; None for the policy of the user's `kuberc`, which is kubectl's.
        environ: Where `KUBECONFIG`, `HOME`, the proxies and a pod's variables are looked up; None for the
            environment of the process.
        account: The folder with a pod's service account.

    Raises:
        ConfigError: There is no configuration, or it is not usable; the message has the cause and the remedy.
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return _from_files([kubeconfig], "its path", context, environ, exec_plugins)
    if environ.get("KUBECONFIG"):
        listed = environ["KUBECONFIG"].split(os.pathsep)
        return _from_files([entry for entry in listed if entry], "KUBECONFIG", context, environ, exec_plugins)
    if context is None and environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return in_cluster(environ, account)
    home = (home_folder(environ) or Path("~")) / ".kube" / "config"
    if home.is_absolute() and home.exists():
        return _from_files([str(home)], "", context, environ, exec_plugins)
    raise ConfigError(
        f"no cluster is configured: KUBECONFIG is not set, {home} does not exist, and this is not a pod; "
        "set KUBECONFIG to the path of a kubeconfig"
    )


def in_cluster(environ: Mapping[str, str], account: Path = _ACCOUNT) -> ClusterConfig:
    """Return the in-cluster configuration: two variables and the files of its service account.

    Raises:
        ConfigError: The authority of the service account cannot be read.
    """
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority = PemSource(str(account / "ca.crt"), field="in-cluster configuration: certificate-authority")
    authority.read()
    try:
        namespace = (account / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return ClusterConfig(
        server=server,
        origin="in-cluster configuration",
        credentials=TokenFile(str(account / "token")),
        ca=authority,
        proxy=proxy_for(server, environ),
        namespace=namespace or "default",
    )


def _from_files(
    paths: list[str], said_by: str, context: str | None, environ: Mapping[str, str], exec_plugins: ExecPolicy | None
) -> ClusterConfig:
    expanded = [os.path.expanduser(path) for path in paths]
    there = [path for path in expanded if os.path.exists(path)]
    if not there:
        names = ", ".join(expanded)
        raise ConfigError(f"kubeconfig {names} does not exist; correct {said_by} or create the file")
    return resolve(_merged(there), context, environ, exec_plugins)


def _merged(paths: list[str]) -> Merged:
    """Return files as one: of entries with the same name, and of current contexts, the first one holds."""
    current, found = "", dict[str, dict[str, Entry]]()
    for path in paths:
        config = _read(path)
        current = current or str(config.get("current-context") or "")
        for plural, singular in _ENTRIES:
            entries = found.setdefault(plural, {})
            for item in config.get(plural) or ():
                entries.setdefault(item["name"], Entry(path, item.get(singular) or {}))
    return Merged(" and ".join(paths), current, *(found[plural] for plural, _ in _ENTRIES))


def _read(path: str) -> dict[str, Any]:
    """Return the configuration in a file.

    Raises:
        ConfigError: It has none; the message names the file.
    """
    import yaml  # noqa: PLC0415  # in a pod there is no file to read

    try:
        with open(path, encoding="utf-8") as file:
            found = next(yaml.load_all(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), None)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}; check the path and its permissions") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise ConfigError(f"kubeconfig {path} is not YAML: {what}; correct the file") from error
    if not isinstance(found, dict):
        raise ConfigError(f"kubeconfig {path} holds no configuration; `kubectl config view` shows what one looks like")
    for plural, singular in _ENTRIES:
        items = found.get(plural) or []
        fits = isinstance(items, list) and all(isinstance(i, dict) and isinstance(i.get("name"), str) for i in items)
        if not fits or not all(isinstance(i.get(singular) or {}, dict) for i in items):
            raise ConfigError(f"kubeconfig {path}: {plural} must be a list of entries with name and {singular}")
    return found
