"""Objects that are sent to subresources and not stored: Bindings, Evictions, Scales and TokenRequests.

Their envelopes are checked as those of all objects: apiVersion and kind, unknown fields, the namespace.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go.
"""

from typing import NamedTuple

from kcr_devcluster.apiserver.http.bodies import field_validation, request_body
from kcr_devcluster.apiserver.http.writing import Write, check_namespace
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import Shape
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, review_sent


class SentObject(NamedTuple):
    """An object that was sent.

    Attributes:
        manifest: The object, conformed to its type.
        metadata: Its metadata.
        warnings: Texts about its unknown and repeated fields, for the `Warning` header.
        shape: Its type.
        api_version: The version of its type.
    """

    manifest: Manifest
    metadata: Manifest
    warnings: list[str]
    shape: Shape
    api_version: str

    def reviewed(self, attributes: AdmissionAttributes, old: Manifest | None = None) -> "SentObject":
        """Return the object after admission.

        Raises:
            PendingError: A review is not known yet.
            StatusError: It is refused.
        """
        if attributes.context.reviews is None:
            return self
        metadata = {**self.metadata, "namespace": attributes.namespace}
        shown = {**self.manifest, "metadata": metadata, "kind": self.shape.short_name, "apiVersion": self.api_version}
        changed = review_sent(attributes, shown, old)
        conform(self.shape, changed)
        return self._replace(manifest=changed, metadata=changed.get("metadata") or {})


def decode_sent(write: Write, type_name: str, *api_versions: str) -> SentObject:
    """Decode the body of a write to a subresource.

    Args:
        write: The request.
        type_name: The type of the object, such as `core.v1.Binding`.
        api_versions: The versions of it that are accepted; the first one is that of a body that names none.

    Raises:
        StatusError: 400, 413 or 415, it is no object of the type, or one of another namespace.
    """
    shape = type_shape(type_name, write.version)
    manifest = request_body.decode_as(shape, api_versions, write.body, write.content_type)
    warnings = field_validation.check(shape, manifest, write.body, write.content_type, write.query)
    conform(shape, manifest)
    metadata: Manifest = manifest.get("metadata") or {}
    check_namespace(write.route, metadata)
    return SentObject(manifest, metadata, warnings, shape, api_versions[0])
