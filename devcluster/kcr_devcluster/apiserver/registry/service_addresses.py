"""Addresses and node ports of Services, allocated in the order of requests.

The first part of each range is left to Services that name their address or port, as upstream does; there, the rest is
allocated at random, here from the start, so that runs are alike.

A request that awaits reviews reserves its numbers until it ends: its reviews show the same ones in each run, and
requests beside it draw others.

Source: kubernetes/pkg/registry/core/service/storage/alloc.go; pkg/registry/core/service/{ipallocator,portallocator}.
"""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import TypeVar

from kcr_devcluster.apiserver.kinds.catalogue import SERVICES
from kcr_devcluster.apiserver.kinds.core.service_rules import is_headless
from kcr_devcluster.apiserver.kinds.core.services import needs_health_check
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import kept
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.protocol.responses import invalid as invalid_object
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep
from kcr_devcluster.apiserver.storage.records import Change

Number = TypeVar("Number", str, int)
_NETWORK = ip_network("10.96.0.0/16")
_FIRST_DYNAMIC = 257
_PORTS = range(30_000, 32_768)
_FIRST_DYNAMIC_PORT = 30_086
_TAKEN_PORT = "provided port is already allocated"
_FOREIGN_PORT = f"provided port is not in the valid range. The range of valid ports is {_PORTS[0]}-{_PORTS[-1]}"


class ServiceAddresses(AdmissionStep):
    """Allocates addresses and ports of new and changed Services; deleting a Service releases its own."""

    kinds = (SERVICES,)

    def __init__(self, context: AdmissionContext) -> None:
        self._cache = context.storage.cache(SERVICES)
        # By address or port, the key of the Service that has it. Empty until a Service is written.
        self._owners: dict[str | int, str] = {}
        # By address or port, the numbers of the request under review that has reserved it.
        self._reserved: dict[str | int, list[str | int]] = {}
        self._mine: list[str | int] | None = None
        self._is_following = False

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Give a valid Service its address, families and node ports.

        Raises:
            StatusError: 422, it names an address or port that it cannot have.
        """
        if attributes.kind is SERVICES:
            self._allocate(obj)

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Give a Service the addresses and ports that its new version needs.

        Raises:
            StatusError: 422, it names an address or port that it cannot have.
        """
        self.check(attributes, obj)

    def _allocate(self, service: Manifest) -> None:
        self._follow()
        self._mine = kept("service numbers", list, self._release)
        metadata, spec = service["metadata"], service["spec"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        errors: list[FieldError] = []
        if spec["type"] != "ExternalName":
            errors += self._allocate_address(spec, key)
        if spec["type"] == "NodePort" or (spec["type"] == "LoadBalancer" and spec["allocateLoadBalancerNodePorts"]):
            errors += self._allocate_ports(spec, key)
        if errors:
            raise _refusal(metadata["name"], errors)
        if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._free_port({port.get("nodePort") for port in spec.get("ports") or ()})

    def _allocate_address(self, spec: Manifest, key: str) -> list[FieldError]:
        if is_headless(spec):
            _set_families(spec)
            return []
        address = spec.get("clusterIP") or ""
        if address:
            if why := self._why_not(address, key):
                words = f"failed to allocate IP {address}: {why}"
                return [invalid("spec.clusterIPs", spec.get("clusterIPs"), words)]
        else:
            address = spec["clusterIP"] = self._free_address()
            spec["clusterIPs"] = [address]
        self._reserve(address)
        _set_families(spec)
        return []

    def _why_not(self, address: str, key: str) -> str:
        if self._is_taken(address, key):
            return "provided IP is already allocated"
        if ":" not in address and ip_address(address) not in _NETWORK:
            return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {_NETWORK}"
        return ""

    def _free_address(self) -> str:
        positions = range(_FIRST_DYNAMIC, _NETWORK.num_addresses - 1)
        found = self._free(str, (str(_NETWORK[position]) for position in positions), set())
        if found is not None:
            return found
        raise StatusError(
            500, "InternalError", "Internal error occurred: failed to allocate a serviceIP: range is full"
        )

    def _allocate_ports(self, spec: Manifest, key: str) -> list[FieldError]:
        errors: list[FieldError] = []
        mine = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
        for position, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if not number:
                number = port["nodePort"] = self._free_port(mine)
                mine.add(number)
            elif self._is_taken(number, key):
                errors.append(invalid(f"spec.ports[{position}].nodePort", number, _TAKEN_PORT))
            elif number not in _PORTS:
                errors.append(invalid(f"spec.ports[{position}].nodePort", number, _FOREIGN_PORT))
            else:
                self._reserve(number)
        return errors

    def _free_port(self, mine: set[int]) -> int:
        found = self._free(int, range(_FIRST_DYNAMIC_PORT, _PORTS.stop), mine)
        if found is not None:
            return found
        raise StatusError(500, "InternalError", "Internal error occurred: failed to allocate a nodePort: range is full")

    def _free(self, type_: type[Number], candidates: Iterable[Number], used: set[Number]) -> Number | None:
        # The numbers of the earlier runs first.
        mine = [number for number in self._mine or () if isinstance(number, type_)]
        for number in chain(mine, candidates):
            if number not in used and not self._is_taken(number, ""):
                self._reserve(number)
                return number
        return None

    def _is_taken(self, number: str | int, key: str) -> bool:
        if self._owners.get(number, key) != key:
            return True
        # A list of its own for each request: two that create a Service of the same name share nothing.
        holder = self._reserved.get(number)
        return holder is not None and holder is not self._mine

    def _reserve(self, number: str | int) -> None:
        if self._mine is not None and number not in self._reserved:
            self._reserved[number] = self._mine
            self._mine.append(number)

    def _release(self, numbers: list[str | int]) -> None:
        for number in numbers:
            del self._reserved[number]

    def _follow(self) -> None:
        """Read the addresses and ports of all Services, and follow them from then on."""
        if self._is_following:
            return
        self._is_following = True
        for record in self._cache.records.values():
            self._owners |= dict.fromkeys(_has(record.manifest()), record.key)
        self._cache.subscribers[self._on_change] = None

    def _on_change(self, change: Change) -> None:
        if change.old is not None:
            for one in _has(change.old.manifest()):
                self._owners.pop(one, None)
        if change.new is not None:
            self._owners |= dict.fromkeys(_has(change.new.manifest()), change.new.key)


def _refusal(name: str, errors: list[FieldError]) -> StatusError:
    return invalid_object("Service", "", name, errors)


def _has(service: Manifest) -> list[str | int]:
    """Return the addresses and ports of a Service."""
    spec = service.get("spec") or {}
    found: list[str | int] = [address for address in spec.get("clusterIPs") or () if address != "None"]
    found += [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]
    return found + ([spec["healthCheckNodePort"]] if spec.get("healthCheckNodePort") else [])


def _set_families(spec: Manifest) -> None:
    """Set the families of the addresses; headless Services without a selector have both, whatever the cluster has."""
    both = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
    if not spec.get("ipFamilies"):
        first = "IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"
        spec["ipFamilies"] = ["IPv4", "IPv6"] if both else [first]
