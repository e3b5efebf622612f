"""The names that containers know: a hosts file per pod, and a DNS server where port 53 is to be had.

Containers are processes in the machine's network. On Linux each pod has an address of its own in 127.0.0.0/8, so a
program that binds to its pod's address shares its port with no other pod. The names are in the hosts file of the
container's mount namespace, which is rewritten in place while the pod runs, and with DNS in its `resolv.conf` as well.
A pod that starts before the first Service, and asks for no name of its own, has neither: it costs a mount namespace.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kcr.api.full.core_v1 import Service
from kcr.api.meta import Key
from kcr.controller import Result, watch
from kcr.log import get_logger
from kcr.manager import Manager
from kcr_devcluster.cluster.names.objects import EndpointSlice
from kcr_devcluster.cluster.names.records import DOMAIN, Names, host_lines, names_of
from kcr_devcluster.cluster.names.responder import Responder

_log = get_logger()
# Without the text there would be two localhosts.
_HOSTS, _RESOLV_CONF = "/etc/hosts", "/etc/resolv.conf"
_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_NAMES = Key("", "names")
_DNS_PORT = 53
# The pods of clusters in other processes are to have other addresses. The largest cluster has 100 nodes.
_NETWORKS = 100


class PodIdentity(NamedTuple):
    """What a pod is called.

    Attributes:
        uid: Its uid.
        namespace: Its namespace.
        address: Its address.
        hostname: Its host name.
        subdomain: The Service that gives it a full name; empty for none.
        aliases: Further lines of its hosts file.
    """

    uid: str
    namespace: str
    address: str
    hostname: str
    subdomain: str = ""
    aliases: tuple[str, ...] = ()


class ClusterNames:
    """Writes the names of a cluster's Services and pods to where containers look them up."""

    def __init__(self) -> None:
        self._network = 1 + os.getpid() % _NETWORKS
        # Whether pods can have addresses of their own.
        self.has_addresses: bool = sys.platform == "linux" and _can_bind(f"127.{self._network}.0.1")
        self._names: Names = {}
        # The hosts files of pods that run.
        self._files: dict[str, tuple[PodIdentity, Path]] = {}
        self._begun = asyncio.Event()
        self._sockets: tuple[socket.socket, ...] = ()

    def network(self, node: int) -> str:
        """Return the first two numbers of the addresses of a node's pods.

        Args:
            node: Its number, from 0.
        """
        return f"127.{self._network + node}"

    @property
    def _nameserver(self) -> str:
        return f"127.{self._network}.255.253"

    @property
    def names(self) -> Names:
        """The names at present."""
        return self._names

    def begin(self) -> None:
        """Take note that there are Services now, and take the port of DNS."""
        try:
            self._sockets = _listen(self._nameserver) if self.has_addresses else ()
        except OSError as error:
            reason = f"port {_DNS_PORT} of {self._nameserver}: {error.strerror}"
            _log.info("names of Services and pods are in hosts files only, not in DNS", reason=reason)
        self._begun.set()

    async def run(self) -> None:
        """Answer DNS requests, from the first Service on, until cancelled."""
        try:
            await self._begun.wait()
            if self._sockets:
                await Responder(lambda: self._names, _nameservers()).run(*self._sockets)
        finally:
            for opened in self._sockets:
                opened.close()

    def are_wanted(self, pod: PodIdentity) -> bool:
        """Return whether the containers of a pod get files with names."""
        return self._begun.is_set() or bool(pod.subdomain or pod.aliases)

    def write_files(self, pod: PodIdentity, home: Path) -> Sequence[tuple[Path, str]]:
        """Write the files with names of a pod, and return them with the paths that they are mounted at."""
        file = home / ".hosts"
        self._files[pod.uid] = (pod, file)
        self._write(pod, file)
        if not self._sockets:
            return ((file, _HOSTS),)
        resolver = home / ".resolv.conf"
        resolver.write_text(_resolv_conf(self._nameserver, pod.namespace))
        return ((file, _HOSTS), (resolver, _RESOLV_CONF))

    def release(self, uid: str) -> None:
        """Forget a pod."""
        self._files.pop(uid, None)

    def update(self, names: Names) -> None:
        """Publish other names than before."""
        if names == self._names:
            return
        self._names = names
        for pod, file in tuple(self._files.values()):
            try:
                self._write(pod, file)
            except FileNotFoundError:  # with its node
                self.release(pod.uid)

    def _write(self, pod: PodIdentity, file: Path) -> None:
        """Write a hosts file in place: what is mounted is the file, not its name."""
        content = hosts_file(pod, self._names).encode()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)


def hosts_file(pod: PodIdentity, names: Names) -> str:
    """Return the hosts file of a pod: the machine's, with the names of the cluster.

    Source: kubernetes/pkg/kubelet/kubelet_pods.go, nodeHostsFileContent, managedHostsFileContent, for the format.

    Args:
        pod: The pod.
        names: All names.
    """
    full = f"{pod.hostname}.{pod.subdomain}.{pod.namespace}.svc.{DOMAIN}\t" if pod.subdomain else ""
    own = f"{pod.address}\t{full}{pod.hostname}"
    return _HEADER + _text(_HOSTS) + "\n".join(("", own, *pod.aliases, *host_lines(names, pod.namespace), ""))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _values(keyword: str) -> list[str]:
    """Return the values of a keyword of the machine's configuration of DNS."""
    lines = (line.split() for line in _text(_RESOLV_CONF).splitlines())
    return [value for words in lines if words[:1] == [keyword] for value in words[1:]]


def _nameservers() -> tuple[tuple[str, int], ...]:
    return tuple((address, _DNS_PORT) for address in _values("nameserver"))


def _resolv_conf(nameserver: str, namespace: str) -> str:
    """Return the configuration of DNS of a pod.

    Source: kubernetes/pkg/kubelet/network/dns/dns.go, GetPodDNS.
    """
    search = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN, *_values("search")]
    return f"search {' '.join(search)}\nnameserver {nameserver}\noptions ndots:5\n"


def _can_bind(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _listen(address: str) -> tuple[socket.socket, ...]:
    """Return a datagram and a listening stream socket.

    Raises:
        OSError: The port is not to be had.
    """
    found: list[socket.socket] = []
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            opened = socket.socket(socket.AF_INET, kind)
            found.append(opened)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
            opened.bind((address, _DNS_PORT))
            opened.setblocking(False)
    except OSError:
        for opened in found:
            opened.close()
        raise
    return tuple(found)


class _NamesReconciler:
    """Publishes the names of all Services at once."""

    def __init__(self, manager: Manager, names: ClusterNames) -> None:
        self._services, self._slices = manager.store(Service), manager.store(EndpointSlice)
        self._names = names

    async def reconcile(self, key: Key) -> Result:
        self._names.update(names_of(self._services.snapshot(), self._slices.snapshot()))
        return Result()


def setup(manager: Manager, names: ClusterNames) -> None:
    """Add the controller that publishes names to a manager, with the first Service."""
    names.begin()
    one = watch(Service, map_to=lambda _: (_NAMES,)), watch(EndpointSlice, map_to=lambda _: (_NAMES,))
    manager.add_controller("names", _NamesReconciler(manager, names), watches=one)
