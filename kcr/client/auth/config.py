"""Configuration loading: `--kubeconfig`, `KUBECONFIG`, the pod we run in, `~/.kube/config`.

The one module that knows kubernetes-asyncio, which reads and merges kubeconfigs. It costs a quarter of a
second to import, so it is imported only when there is a kubeconfig to read (ST-1).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from kcr.arguments import checked
from kcr.client.auth.exec_policy import ExecPolicy, home_folder
from kcr.client.auth.kubeconfig import Entry, Merged, resolve
from kcr.client.cluster_config import ClusterConfig, PemSource
from kcr.client.credentials import TokenFile
from kcr.client.wire.connections import proxy_for
from kcr.errors import ConfigError

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
        f"no cluster is configured: KUBECONFIG is not set, {home} does not exist, and this is no pod; "
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
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger  # noqa: PLC0415  # slow to import, see above

    for path in paths:
        _check_readable(path)
    # Its own idea of the current context, the last one named, is not kubectl's: that is the first.
    merger = KubeConfigMerger(os.pathsep.join(paths))
    current = next((str(f["current-context"]) for f in merger.config_files.values() if f.get("current-context")), "")
    merged = merger.config.value if merger.config else {}

    def entries(plural: str, singular: str) -> dict[str, Entry]:
        found = ((node.value, node.path) for node in merged[plural])
        return {value["name"]: Entry(path, value.get(singular) or {}) for value, path in found}

    return Merged(
        " and ".join(paths), current, entries("contexts", "context"), entries("clusters", "cluster"),
        entries("users", "user"),
    )  # fmt: skip


def _check_readable(path: str) -> None:
    """Raise a ConfigError that names the file, which the errors of the merger do not."""
    import yaml  # noqa: PLC0415  # comes with kubernetes-asyncio, and is as slow

    try:
        with open(path, encoding="utf-8") as file:
            found = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}; check the path and its permissions") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise ConfigError(f"kubeconfig {path} is no YAML: {what}; correct the file") from error
    if not isinstance(found, dict):
        raise ConfigError(f"kubeconfig {path} holds no configuration; `kubectl config view` shows what one looks like")
    for plural, singular in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
        items = found.get(plural) or []
        fits = isinstance(items, list) and all(isinstance(i, dict) and isinstance(i.get("name"), str) for i in items)
        if not fits or not all(isinstance(i.get(singular) or {}, dict) for i in items):
            raise ConfigError(f"kubeconfig {path}: {plural} must be a list of entries with name and {singular}")
