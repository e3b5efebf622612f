"""What may stand in the volumes of a pod.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateVolumes.
"""

from kcr.apiserver.kinds.core.names import dns_label
from kcr.apiserver.kinds.field_errors import duplicate, forbidden, invalid, required
from kcr.apiserver.kinds.strategy import FieldError, Manifest

# What a source cannot do without; kinds of volumes that are not named are taken as they come.
_NEEDED = {
    "configMap": "name", "hostPath": "path", "nfs": "server", "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}  # fmt: skip


def check_volumes(volumes: list[Manifest] | tuple[()], field: str) -> tuple[dict[str, Manifest], list[FieldError]]:
    """Return the volumes by name, and their faults."""
    named: dict[str, Manifest] = {}
    faults: list[FieldError] = []
    for position, volume in enumerate(volumes):
        path, name = f"{field}[{position}]", volume.get("name", "")
        faults += [invalid(f"{path}.name", name, reason) for reason in dns_label(name)] if name else []
        if not name:
            faults.append(required(f"{path}.name"))
        elif name in named:
            faults.append(duplicate(f"{path}.name", name))
        named[name] = volume
        sources = [source for source in volume if source != "name"]
        faults += [forbidden(f"{path}.{extra}", "may not specify more than 1 volume type") for extra in sources[1:]]
        for source in sources[:1]:
            needed = _NEEDED.get(source)
            if needed and not volume[source].get(needed):
                faults.append(required(f"{path}.{source}.{needed}"))
    return named, faults
