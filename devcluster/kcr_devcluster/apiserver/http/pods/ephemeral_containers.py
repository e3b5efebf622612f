"""Ephemeral containers, which `kubectl debug` adds to a pod that runs: validated, and refused.

Source: kubernetes/pkg/registry/core/pod/storage/storage.go, EphemeralContainersREST;
kubernetes/pkg/apis/core/validation/validation.go, ValidatePodEphemeralContainersUpdate.
"""

from kcr_devcluster.apiserver.http.bodies import request_body
from kcr_devcluster.apiserver.http.pods.pod_streams import not_implemented
from kcr_devcluster.apiserver.http.writing import Write, check_name, patched, write_response
from kcr_devcluster.apiserver.kinds.pods.defaults import default_pod_spec
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_pod_spec
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.responses import APIResponse, invalid
from kcr_devcluster.apiserver.registry import metadata
from kcr_devcluster.apiserver.registry.registry import Registry, WriteResult

_MEMBER = "ephemeralContainers"


def update(registry: Registry, write: Write) -> APIResponse:
    """Handle a PUT or PATCH: one that adds no container changes nothing.

    Raises:
        StatusError: 404, no such pod; 422, the containers are invalid; 501, they are valid and not run here.
    """
    route = write.route
    old = registry.find(route.kind, route.namespace, route.name)
    if request_body.media_type(write.content_type).endswith("patch+json"):
        new = patched(write, write.shape, old.manifest())
    else:
        new = request_body.decode_object(route.kind, write.body, write.content_type)
    check_name(route, metadata.decode_metadata(route.kind, new.get("metadata")))
    conform(write.shape, new)
    # Nothing else is written.
    added = new["spec"].get(_MEMBER) or []
    before = old.manifest()
    spec = {**before["spec"], _MEMBER: added}
    default_pod_spec(spec)
    if errors := check_pod_spec(spec, "spec"):
        raise invalid(route.kind.type.kind, route.kind.type.group, route.name, errors)
    if added == (before["spec"].get(_MEMBER) or []):
        return write_response(write, WriteResult(old, [], before), [])
    raise not_implemented(
        f'pods "{route.name}": ephemeral containers are not supported by this cluster; '
        f"run the tools beside the container's own processes: kubectl exec -it -n {route.namespace} {route.name} -- sh"
    )
