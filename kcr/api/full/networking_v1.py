# Made by `python -m tools.api_types`: do not edit.
"""Types of networking/v1, whole."""

from kcr.api.full.core_v1 import TypedLocalObjectReference
from kcr.api.markers import IntOrString
from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class ServiceBackendPort(Object):
    """ServiceBackendPort of networking/v1."""

    name: str | None = None
    number: int | None = None


class IngressServiceBackend(Object):
    """IngressServiceBackend of networking/v1."""

    name: str
    port: ServiceBackendPort | None = None


class IngressBackend(Object):
    """IngressBackend of networking/v1."""

    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(Object):
    """HTTPIngressPath of networking/v1."""

    backend: IngressBackend
    path: str | None = None
    path_type: str


class HTTPIngressRuleValue(Object):
    """HTTPIngressRuleValue of networking/v1."""

    paths: tuple[HTTPIngressPath, ...]


class IngressRule(Object):
    """IngressRule of networking/v1."""

    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Object):
    """IngressTLS of networking/v1."""

    hosts: tuple[str, ...] = ()
    secret_name: str | None = None


class IngressSpec(Object):
    """IngressSpec of networking/v1."""

    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressPortStatus(Object):
    """IngressPortStatus of networking/v1."""

    error: str | None = None
    port: int
    protocol: str


class IngressLoadBalancerIngress(Object):
    """IngressLoadBalancerIngress of networking/v1."""

    hostname: str | None = None
    ip: str | None = None
    ports: tuple[IngressPortStatus, ...] = ()


class IngressLoadBalancerStatus(Object):
    """IngressLoadBalancerStatus of networking/v1."""

    ingress: tuple[IngressLoadBalancerIngress, ...] = ()


class IngressStatus(Object):
    """IngressStatus of networking/v1."""

    load_balancer: IngressLoadBalancerStatus | None = None


class Ingress(FullResource, api_version="networking.k8s.io/v1", plural="ingresses"):
    """Ingress of networking/v1."""

    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class IPBlock(Object):
    """IPBlock of networking/v1."""

    cidr: str
    except_: tuple[str, ...] = ()


class NetworkPolicyPeer(Object):
    """NetworkPolicyPeer of networking/v1."""

    ip_block: IPBlock | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class NetworkPolicyPort(Object):
    """NetworkPolicyPort of networking/v1."""

    end_port: int | None = None
    port: IntOrString | None = None
    protocol: str | None = None


class NetworkPolicyEgressRule(Object):
    """NetworkPolicyEgressRule of networking/v1."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyIngressRule(Object):
    """NetworkPolicyIngressRule of networking/v1."""

    from_: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


class NetworkPolicySpec(Object):
    """NetworkPolicySpec of networking/v1."""

    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    pod_selector: LabelSelector | None = None
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(FullResource, api_version="networking.k8s.io/v1", plural="networkpolicies"):
    """NetworkPolicy of networking/v1."""

    spec: NetworkPolicySpec = NetworkPolicySpec()
