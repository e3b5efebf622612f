"""Hosts files of pods, and their updates."""

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.message
import pytest

from kcr.api.meta import Key
from kcr_devcluster.cluster.names.cluster_names import ClusterNames, PodIdentity, hosts_file
from kcr_devcluster.cluster.names.records import Member, ServiceName

POD = PodIdentity("uid", "shop", "127.1.0.1", "p-0", "peers", ("192.0.2.1\tdb",))
NAMES = {Key("shop", "peers"): ServiceName((Member("127.1.0.2", "p-1", ()),))}


@asynccontextmanager
async def running() -> AsyncIterator[ClusterNames]:
    names = ClusterNames()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(names.run())
        await asyncio.sleep(0)
        yield names
        task.cancel()


def test_hosts_file_has_the_machines_names_and_the_pods() -> None:
    lines = hosts_file(POD, NAMES).splitlines()
    assert lines[0] == "# Kubernetes-managed hosts file (host network)."
    machine = Path("/etc/hosts").read_text().splitlines()
    assert lines[1 : 1 + len(machine)] == machine
    assert [line for line in lines[1 + len(machine) :] if line] == [
        "127.1.0.1\tp-0.peers.shop.svc.cluster.local\tp-0",
        "192.0.2.1\tdb",
        "127.1.0.2\tp-1.peers.shop.svc.cluster.local p-1.peers.shop.svc p-1.peers.shop p-1.peers "
        "peers.shop.svc.cluster.local peers.shop.svc peers.shop peers",
    ]


def test_pod_without_a_subdomain_has_its_short_name() -> None:
    plain = POD._replace(subdomain="", aliases=())
    assert hosts_file(plain, {}).splitlines()[-1] == "127.1.0.1\tp-0"


@pytest.mark.asyncio
async def test_files_are_for_pods_that_ask_for_names_until_there_are_services() -> None:
    async with running() as names:
        plain = POD._replace(subdomain="", aliases=())
        assert [names.are_wanted(one) for one in (POD, plain, plain._replace(aliases=("a",)))] == [True, False, True]
        names.begin()
        assert names.are_wanted(plain)


def test_file_is_changed_in_place_until_its_pod_is_released(tmp_path: Path) -> None:
    names = ClusterNames()
    ((file, target),) = names.write_files(POD, tmp_path)
    assert (target, file.read_text()) == ("/etc/hosts", hosts_file(POD, {}))
    inode = file.stat().st_ino
    names.update(NAMES)
    assert file.read_text() == hosts_file(POD, NAMES)
    names.update({})
    assert (file.read_text(), file.stat().st_ino) == (hosts_file(POD, {}), inode)
    names.release("uid")
    names.update(NAMES)
    assert file.read_text() == hosts_file(POD, {})


def test_file_that_went_with_its_node_is_forgotten(tmp_path: Path) -> None:
    names = ClusterNames()
    for home in ("gone", "stays"):
        (tmp_path / home).mkdir()
        names.write_files(POD._replace(uid=home), tmp_path / home)
    shutil.rmtree(tmp_path / "gone")
    names.update(NAMES)
    assert (tmp_path / "stays/.hosts").read_text() == hosts_file(POD, NAMES)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_nodes_have_networks_of_their_own() -> None:
    names = ClusterNames()
    assert names.has_addresses
    networks = {names.network(number) for number in range(100)}
    assert len(networks) == 100
    assert all(network.startswith("127.") and network != "127.0" for network in networks)


@pytest.mark.asyncio
async def test_pods_have_a_server_of_names_where_its_port_is_to_be_had(tmp_path: Path) -> None:
    async with running() as names:
        names.begin()
        files = {target: file for file, target in names.write_files(POD, tmp_path)}
        if not may_listen():
            assert list(files) == ["/etc/hosts"]
            return
        text = files["/etc/resolv.conf"].read_text()
        assert text.startswith("search shop.svc.cluster.local svc.cluster.local cluster.local")
        assert text.endswith("options ndots:5\n")
        (server,) = (line.split()[1] for line in text.splitlines() if line.startswith("nameserver"))
        names.update(NAMES)
        asked = dns.message.make_query("p-1.peers.shop.svc.cluster.local", "A")
        found = await dns.asyncquery.udp(asked, server, timeout=5)
        assert [item.to_text() for one in found.answer for item in one] == ["127.1.0.2"]


def may_listen() -> bool:
    """Whether this user gets the port of DNS on a loopback address."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.250.250.250", 53))
        except OSError:
            return False
    return True
