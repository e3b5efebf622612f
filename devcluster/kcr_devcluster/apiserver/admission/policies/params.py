"""The parameters of a binding: objects of the policy's `paramKind`, by name or by labels.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go, CollectParams;
policy_source.go, ensureParamsForPolicyLocked.
"""

from collections.abc import Sequence

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import selects
from kcr_devcluster.apiserver.storage.records import Record, in_versions
from kcr_devcluster.apiserver.storage.storage import Storage


class ConfigurationError(Exception):
    """A policy or a binding that cannot be evaluated as it is; the message is upstream's."""


def param_kind(policy: Manifest, served: ServedIndex) -> Kind | None:
    """Return the kind of a policy's parameters, None where it has none.

    Raises:
        ConfigurationError: The kind is not served.
    """
    wanted = policy.get("paramKind")
    if wanted is None:
        return None
    api_version, name = wanted.get("apiVersion", ""), wanted.get("kind", "")
    for kind in served.kinds:
        if (kind.type.api_version, kind.type.kind) == (api_version, name):
            return kind
    group, _, version = api_version.rpartition("/")
    shown = f"{group}/{version}, Kind={name}"
    raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")


def collect_params(
    kind: Kind | None, reference: Manifest | None, namespace: str, storage: Storage
) -> Sequence[Manifest | None]:
    """Return the parameters that a policy is evaluated with, one after another; None stands for no parameters.

    Args:
        kind: The kind of the policy's parameters; None for none.
        reference: The binding's `paramRef`.
        namespace: The namespace of the request, where parameters are unless the reference says another.
        storage: The objects.

    Raises:
        ConfigurationError: The reference does not fit the kind, or there are no parameters, and that is an error.
        PendingError: A webhook converts them, and has to be called.
        StatusError: 500, the webhook failed.
    """
    if kind is None or reference is None:
        return [None]
    where = _namespace(kind, reference, namespace)
    found = _selected(kind, reference, where, storage)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [record.manifest() for record in in_versions(found, kind)]


def _namespace(kind: Kind, reference: Manifest, namespace: str) -> str:
    said: str = reference.get("namespace", "")
    if not kind.type.namespaced:
        if said:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not said and not namespace:
        raise ConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return said or namespace


def _selected(kind: Kind, reference: Manifest, namespace: str, storage: Storage) -> Sequence[Record]:
    if name := reference.get("name", ""):
        record = storage.get(kind, namespace, name)
        return [] if record is None else [record]
    selector = reference.get("selector")
    if selector is None:
        raise ConfigurationError("one of name or selector must be provided")
    records = storage.cache(kind.stored).select(namespace)
    return [record for record in records if selects(selector, record.metadata.labels)]
