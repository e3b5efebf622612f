"""Names of Services and of the pods behind them, from Services and EndpointSlices.

The address of a Service leads nowhere here, so its name leads to the pods themselves, as that of a headless one.

Source: github.com/coredns/coredns/plugin/kubernetes; kubernetes/dns/docs/specification.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcr.api.full.core_v1 import Service
from kcr.api.meta import Key
from kcr_devcluster.cluster.names.objects import SERVICE_NAME, EndpointPort, EndpointSlice

DOMAIN = "cluster.local"


class Member(NamedTuple):
    """An address behind a Service.

    Attributes:
        address: The address.
        host: Its host name within the Service; empty for none.
        ports: The ports.
    """

    address: str
    host: str
    ports: tuple[EndpointPort, ...]


class ServiceName(NamedTuple):
    """The addresses that the name of a Service leads to.

    Attributes:
        members: The addresses.
        external: The name that it stands for; empty for none.
    """

    members: tuple[Member, ...] = ()
    external: str = ""


Names = Mapping[Key, ServiceName]


def names_of(services: Iterable[Service], slices: Iterable[EndpointSlice]) -> Names:
    """Return the names of all Services, in order.

    Args:
        services: All Services.
        slices: All EndpointSlices; the endpoints that are not ready have no names.
    """
    by_service: dict[Key, list[EndpointSlice]] = {}
    for one in slices:
        by_service.setdefault(Key(one.metadata.namespace, one.metadata.labels.get(SERVICE_NAME, "")), []).append(one)
    return {
        service.key: ServiceName(
            tuple(sorted(_members(service, by_service.get(service.key, ())))),
            (service.spec.external_name or "") if service.spec.type == "ExternalName" else "",
        )
        for service in sorted(services, key=lambda one: one.key)
    }


def _members(service: Service, slices: Iterable[EndpointSlice]) -> Iterable[Member]:
    is_headless = service.spec.cluster_ip == "None"
    for one in slices:
        for endpoint in one.endpoints if one.address_type == "IPv4" else ():
            if endpoint.conditions.ready is False:
                continue
            for address in endpoint.addresses:
                host = endpoint.hostname or address.replace(".", "-")
                yield Member(address, host if is_headless else "", one.ports)


def host_lines(names: Names, namespace: str) -> Sequence[str]:
    """Return the lines of a hosts file, for the pods of a namespace.

    Args:
        names: The names.
        namespace: Its Services have short names.
    """
    lines = []
    for key, name in names.items():
        for member in name.members:
            hosts = [member.host] if member.host else []
            aliases = [
                alias for host in hosts for alias in _forms(f"{host}.{key.name}", key.namespace, namespace)
            ] + _forms(key.name, key.namespace, namespace)
            lines.append(f"{member.address}\t{' '.join(aliases)}")
    return lines


def _forms(name: str, namespace: str, home: str) -> list[str]:
    """Return the forms of a name, the full one first."""
    short = [name] if namespace == home else []
    return [f"{name}.{namespace}.svc.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}", *short]


class Found(NamedTuple):
    """The records of a name.

    Attributes:
        addresses: Its addresses.
        services: Its SRV records: ports and targets.
        external: The name that it stands for; empty for none.
    """

    addresses: tuple[str, ...] = ()
    services: tuple[tuple[int, str], ...] = ()
    external: str = ""


def look_up(names: Names, name: str) -> Found | None:
    """Return the records of a name in the cluster's domain, None where it does not exist.

    Args:
        names: The names.
        name: Such as `peers.default.svc.cluster.local`, in lower case, without the last dot.
    """
    match name.removesuffix(f".{DOMAIN}").split("."):
        case [*hosts, service, namespace, "svc"]:
            found = names.get(Key(namespace, service))
        case _:
            return None
    match hosts:
        case _ if found is None:
            return None
        case []:
            return Found(_addresses(found.members), external=found.external)
        case [host]:
            addresses = _addresses(member for member in found.members if member.host == host)
            return Found(addresses) if addresses else None
        case [port, protocol]:
            base = f"{service}.{namespace}.svc.{DOMAIN}"
            targets = tuple(
                (one.port or 0, f"{member.host}.{base}" if member.host else base)
                for member in found.members
                for one in member.ports
                if (f"_{one.name}", f"_{(one.protocol or 'TCP').lower()}") == (port, protocol)
            )
            return Found(services=targets) if targets else None
    return None


def _addresses(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member.address for member in members))
