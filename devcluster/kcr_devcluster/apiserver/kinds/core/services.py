"""The strategy of Services: defaulting, and the fields that depend on the type.

Other modules allocate addresses and ports.

Source: kubernetes/pkg/apis/core/v1/defaults.go, SetDefaults_Service; pkg/registry/core/service/strategy.go and
storage/storage.go, normalizeClusterIPs and dropTypeDependentFields; pkg/apis/core/validation/validation.go,
ValidateServiceUpdate.
"""

from kcr_devcluster.apiserver.kinds.core.service_rules import check_service, service_warnings
from kcr_devcluster.apiserver.kinds.networking.load_balancers import check_service_status, default_modes
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, forbidden, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_AFFINITY_SECONDS = 10_800
_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def is_reachable(spec: Manifest) -> bool:
    """Return whether a Service is reachable from outside the cluster."""
    return spec.get("type") in _WITH_NODE_PORTS or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def needs_health_check(spec: Manifest) -> bool:
    """Return whether a Service needs a health check port, on which nodes report whether they run its pods."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


# A real cluster has kube-proxy.
_NO_PROXY = (
    "the address of a Service leads nowhere here: in kcr dev, on Linux, its name leads to the addresses of its pods, "
    "at the pods' own ports"
)


class ServiceStrategy(Strategy):
    """Services; an address does not change once it is set."""

    stored_as = ("v1", "Service")

    def default(self, obj: Manifest) -> None:
        """Fill in type, affinity, policies and target ports."""
        super().default(obj)
        spec: Manifest = obj.setdefault("spec", {})
        kind = spec["type"] = spec.get("type") or "ClusterIP"
        affinity = spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", _AFFINITY_SECONDS)
        for port in spec.get("ports") or ():
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if is_reachable(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind in _WITH_ADDRESS:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            default_modes(obj)

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status; one `clusterIP` is the first of `clusterIPs`."""
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status and the allocated values; drop the fields that the new type does not have."""
        super().prepare_update(new, old)
        after, before = new["spec"], old["spec"]
        _align_addresses(after, before)
        _keep_allocated(after, before)
        _drop_foreign(after, before)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a Service."""
        return check_service(obj)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return check_service_status(new)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return warnings about deprecated values and, on create, that the address of the Service leads nowhere."""
        spec = new["spec"]
        has_address = old is None and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None"
        return [*service_warnings(spec), *([_NO_PROXY] if has_address else [])]

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        after, before = new["spec"], old["spec"]
        errors = _check_addresses(after, before)
        if after["type"] == before["type"] == "LoadBalancer":
            name = after.get("loadBalancerClass")
            if name != before.get("loadBalancerClass"):
                errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
        checked = needs_health_check(after) and needs_health_check(before)
        if checked and after.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
        return errors + self.validate(new)


def _keep_allocated(after: Manifest, before: Manifest) -> None:
    """Keep addresses and ports that the update does not name."""
    if after["type"] != "ExternalName" and before["type"] != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not after.get(name) and before.get(name):
                after[name] = before[name]
    if after["type"] in _WITH_NODE_PORTS and before["type"] in _WITH_NODE_PORTS:
        known = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            if not port.get("nodePort") and known.get(_port_key(port)):
                port["nodePort"] = known[_port_key(port)]
    if needs_health_check(after) and needs_health_check(before) and before.get("healthCheckNodePort"):
        after.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _port_key(port: Manifest) -> tuple[str, int]:
    return port.get("protocol", ""), port.get("port", 0)


def _align_addresses(after: Manifest, before: Manifest) -> None:
    """Change `clusterIPs` with `clusterIP` where only one of them was changed."""
    one, many = after.pop("clusterIP", ""), after.pop("clusterIPs", [])
    is_one, is_many = one != before.get("clusterIP", ""), many != before.get("clusterIPs", [])
    if is_one and (not is_many or not many):
        many = [one, *many[1:]] if one else []
    elif is_many and not is_one:
        one = many[0] if many else ""
    after |= {name: value for name, value in (("clusterIP", one), ("clusterIPs", many)) if value}


def _drop_foreign(after: Manifest, before: Manifest) -> None:
    """Drop the fields of the old type that the new type does not have and the update did not change."""
    foreign: list[str] = []
    if after["type"] == "ExternalName" and before["type"] != "ExternalName":
        foreign += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if before["type"] in _WITH_NODE_PORTS and after["type"] not in _WITH_NODE_PORTS:
        known = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            if port.get("nodePort") == known.get(_port_key(port)):
                port.pop("nodePort", None)
    if not is_reachable(after):
        foreign.append("externalTrafficPolicy")
    if not needs_health_check(after):
        foreign.append("healthCheckNodePort")
    if after["type"] != "LoadBalancer":
        foreign += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    for name in foreign:
        if name in after and after[name] == before.get(name):
            del after[name]


def _check_addresses(after: Manifest, before: Manifest) -> list[FieldError]:
    new, old = after.get("clusterIPs") or [], before.get("clusterIPs") or []
    if "ExternalName" in (after["type"], before["type"]) or not old:
        return []
    if not new:
        return [invalid("spec.clusterIPs[0]", new, "primary clusterIP can not be unset")]
    return [] if new[0] == old[0] else [invalid("spec.clusterIPs[0]", new, "may not change once set")]
