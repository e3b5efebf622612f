# Made by `python -m tools.api_types`: do not edit.
"""Types of networking/v1, whole."""

from kcr.api.full.core_v1 import TypedLocalObjectReference
from kcr.api.markers import IntOrString
from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class ServiceBackendPort(Object):
    name: str | None = None
    number: int | None = None


class IngressServiceBackend(Object):
    name: str
    port: ServiceBackendPort | None = None


class IngressBackend(Object):
    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(Object):
    backend: IngressBackend
    path: str | None = None
    path_type: str


class HTTPIngressRuleValue(Object):
    paths: tuple[HTTPIngressPath, ...]


class IngressRule(Object):
    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Object):
    hosts: tuple[str, ...] = ()
    secret_name: str | None = None


class IngressSpec(Object):
    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressPortStatus(Object):
    error: str | None = None
    port: int
    protocol: str


class IngressLoadBalancerIngress(Object):
    hostname: str | None = None
    ip: str | None = None
    ports: tuple[IngressPortStatus, ...] = ()


class IngressLoadBalancerStatus(Object):
    ingress: tuple[IngressLoadBalancerIngress, ...] = ()


class IngressStatus(Object):
    load_balancer: IngressLoadBalancerStatus | None = None


class Ingress(FullResource, api_version="networking.k8s.io/v1", plural="ingresses"):
    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class IPBlock(Object):
    cidr: str
    except_: tuple[str, ...] = ()


class NetworkPolicyPeer(Object):
    ip_block: IPBlock | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class NetworkPolicyPort(Object):
    end_port: int | None = None
    port: IntOrString | None = None
    protocol: str | None = None


class NetworkPolicyEgressRule(Object):
    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyIngressRule(Object):
    from_: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


class NetworkPolicySpec(Object):
    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    pod_selector: LabelSelector | None = None
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(FullResource, api_version="networking.k8s.io/v1", plural="networkpolicies"):
    spec: NetworkPolicySpec = NetworkPolicySpec()
