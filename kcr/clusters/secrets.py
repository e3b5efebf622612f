"""Kubeconfigs in Secrets: each labelled Secret of a namespace is a member cluster, as long as it exists."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from kcr.api.core import SecretData
from kcr.api.meta import Key
from kcr.client import ClusterConfig
from kcr.client.auth.kubeconfig import Entry, Merged, resolve
from kcr.client.cluster_config import tls_context
from kcr.controller import Result, watch
from kcr.errors import ConfigError
from kcr.informer import Selection
from kcr.log import get_logger
from kcr.manager import Manager

# Source: sigs.k8s.io/multicluster-runtime, providers/kubeconfig/provider.go: DefaultKubeconfigSecretLabel and …Key.
LABEL, FIELD = "sigs.k8s.io/multicluster-runtime-kubeconfig", "kubeconfig"

# Fields that name a file or a program of this process, with the remedy: its author could read or run any of them.
_REFUSED: Mapping[str, str] = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
    "tokenFile": "token",
    "exec": "a token or a client certificate",
    "auth-provider": "a token or a client certificate",
}

_log = get_logger()


class KubeconfigSecret(SecretData):
    """A Secret with a kubeconfig."""


class KubeconfigSecrets:
    """Opens and closes member clusters as their Secrets come, change and are deleted; a reconciler."""

    def __init__(
        self, manager: Manager, opening: Callable[[str, ClusterConfig], object], closing: Callable[[str], None],
        namespace: str, labels: str, field: str,
    ) -> None:  # fmt: skip
        """Watch the Secrets; see `Clusters.add_secrets`.

        Args:
            manager: The manager of the home cluster.
            opening: Opens a member, or opens it again.
            closing: Closes a member.
            namespace: The namespace of the Secrets.
            labels: Selects the Secrets.
            field: The field with the kubeconfig.
        """
        if not namespace:
            raise ValueError("clusters: name the namespace of the Secrets with kubeconfigs")
        self._open, self._close, self._field = opening, closing, field
        # The kubeconfigs of the Secrets as they were last read, good or not.
        self._read: dict[Key, bytes | None] = {}
        self._recorder = manager.recorder("clusters")
        manager.select(Selection(KubeconfigSecret, namespace=namespace, labels=labels))
        self._secrets = manager.store(KubeconfigSecret)
        # On standbys as well: their caches are warm when they lead.
        manager.add_controller(
            "clusters", self, watches=[watch(KubeconfigSecret)], needs_leader_election=False, own_writes=False
        )

    async def reconcile(self, key: Key) -> Result:
        """Open, reopen or close the member of a Secret."""
        secret = self._secrets.get(key)
        if secret is None or secret.metadata.deletion_timestamp is not None:
            self._read.pop(key, None)
            self._close(key.name)
            return Result()
        found = secret.data.get(self._field)
        if key in self._read and self._read[key] == found:
            return Result()
        self._read[key] = found
        try:
            config = read_kubeconfig(found, f"Secret {key}, field {self._field}")
        except ConfigError as error:
            # Not the cluster of before either: after a restart there would be none.
            self._close(key.name)
            _log.warning("member cluster refused", cluster=key.name, error=str(error))
            self._recorder.event(secret, "Warning", "KubeconfigRefused", str(error))
        else:
            self._open(key.name, config)
        return Result()


def read_kubeconfig(found: bytes | None, origin: str) -> ClusterConfig:
    """Return the cluster of a kubeconfig's current context.

    Args:
        found: The kubeconfig; None for none.
        origin: Names the place for messages, which quote nothing of the content but names.

    Raises:
        ConfigError: It cannot be used; the message has the place, the cause and the remedy.
    """
    import yaml  # noqa: PLC0415  # slow to import

    if not found:
        raise ConfigError(f"{origin} is missing or empty: put a kubeconfig into it")
    try:
        value = next(yaml.load_all(found, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), None)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigError(f"{origin} is not YAML{line}: put a kubeconfig into it") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} is not a kubeconfig: `kubectl config view --raw --minify --flatten` prints one")
    parts = [_entries(value, *names, origin) for names in (("contexts", "context"), ("clusters", "cluster"),
                                                           ("users", "user"))]  # fmt: skip
    config = resolve(Merged(f"in {origin}", str(value.get("current-context") or ""), *parts), None, os.environ, "never")
    # Certificates that are unusable show here, and not with the first request.
    tls_context(config)
    return config


def _entries(value: Mapping[str, Any], plural: str, singular: str, origin: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    items = value.get(plural) or ()
    for item in items if isinstance(items, list | tuple) else (None,):
        name = item.get("name") if isinstance(item, dict) else None
        fields = (item.get(singular) or {}) if isinstance(item, dict) else None
        if not isinstance(fields, dict) or not isinstance(name, str):
            raise ConfigError(f"{origin}: {plural} must be a list of entries with name and {singular}")
        for refused in sorted(_REFUSED.keys() & fields.keys()):
            why = "it names a file or a program of this process"
            raise ConfigError(f"{origin}: {singular} {name}: {refused} is refused, {why}: use {_REFUSED[refused]}")
        entries[name] = Entry("", fields)
    return entries
