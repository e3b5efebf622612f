"""`kcr dev --data-dir` is killed with -9 between writes, and started again on the same folder."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
import yaml

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import NotFoundError, TransportError
from kcr_devcluster.apiserver.registry.service_accounts import ROOT_CA
from tests.e2e.processes import Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

KEYS = [Key("default", f"map-{number}") for number in range(25)]
WRITERS = 4
OPTIONS = ("--no-controllers", "--runtime", "simulated")


class Ledger:
    """What a server has acknowledged, and the process to kill when it has acknowledged enough."""

    def __init__(self) -> None:
        # Version and number of each object; None for a deleted one.
        self.acknowledged: dict[Key, tuple[int, str] | None] = {}
        # Keys whose last write had no answer: it may have happened.
        self.unknown: set[Key] = set()
        # The versions that were given, each once.
        self.versions: set[int] = {0}
        # The version of the cluster when its latest process began: what is written since is newer.
        self.first_version = 0
        self.writes = 0
        self._victim: Running | None = None

    def kill_at(self, victim: Running, writes: int) -> None:
        self._victim, self._at = victim, writes

    def note(self, key: Key, written: ConfigMap | None) -> None:
        self.unknown.discard(key)
        self.acknowledged[key] = state = state_of(written)
        if state is not None:
            assert state[0] > self.first_version, "versions go back"
            assert state[0] not in self.versions, "versions are given twice"
            self.versions.add(state[0])
        self.writes += 1
        if self._victim is not None and self.writes >= self._at:
            self._victim.send(signal.SIGKILL)


def without_page(kubeconfig: Path) -> str:
    """Return what clients of the API server read of a kubeconfig: the page has another address at each start."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"].pop("extensions", None)
    return str(config)


def state_of(one: ConfigMap | None) -> tuple[int, str] | None:
    return None if one is None else (int(one.metadata.resource_version), one.data["number"])


async def write(client: Client, ledger: Ledger, keys: list[Key], random: Random) -> None:
    """Create, patch and delete objects until the server is gone."""
    number = 0
    while True:
        number += 1
        key = random.choice(keys)
        ledger.unknown.add(key)
        data = {"number": f"{key.name}-{random.random()}", "filler": "x" * random.randrange(3000)}
        try:
            ledger.note(key, await _write(client, key, data, deletes=number % 7 == 0))
        except TransportError:
            return


async def _write(client: Client, key: Key, data: Mapping[str, str], *, deletes: bool) -> ConfigMap | None:
    try:
        if deletes:
            await client.delete(ConfigMap, key)
            return None
        return await client.merge_patch(ConfigMap, key, {"data": data})
    except NotFoundError:
        return (
            None
            if deletes
            else await client.create(ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace), data=data))
        )


async def check(client: Client, ledger: Ledger) -> None:
    """Compare what is stored with what was acknowledged."""
    metadata, found = await client.list_page(ConfigMap, "default")
    ledger.first_version = int(metadata.resource_version)
    assert ledger.first_version >= max(ledger.versions), "versions go back"
    # Each namespace has the authority of the server.
    stored = {one.key: state_of(one) for one in found if one.metadata.name != ROOT_CA}
    assert all(stored.get(key) == state for key, state in ledger.acknowledged.items() if key not in ledger.unknown)
    ledger.acknowledged |= {key: stored.get(key) for key in ledger.unknown}
    ledger.versions |= {state[0] for state in stored.values() if state is not None}
    ledger.unknown.clear()


@pytest.mark.parametrize("kills", [pytest.param(2, id="cheap"), pytest.param(30, id="long", marks=pytest.mark.soak)])
@pytest.mark.soak
async def test_what_was_acknowledged_is_there_after_each_hundredth_write(
    kcr: Start, tmp_path: Path, kills: int
) -> None:
    ledger, random = Ledger(), Random(kills)
    kubeconfigs = set()
    for attempt in range(kills + 1):
        async with kcr("dev", "--data-dir", str(tmp_path / "data"), *OPTIONS) as dev:
            path = await dev.kubeconfig()
            kubeconfigs.add(without_page(path))
            async with HttpTransport(load_config(str(path))) as transport:
                client = Client(transport)
                await check(client, ledger)
                if attempt == kills:
                    break
                ledger.kill_at(dev, 100 * (attempt + 1))
                async with asyncio.TaskGroup() as group:
                    for number in range(WRITERS):
                        group.create_task(write(client, ledger, KEYS[number::WRITERS], random))
                assert await dev.end() == -9
    assert ledger.writes >= 100 * kills
    assert len(kubeconfigs) == 1, "kubectl and controllers go on with the kubeconfig that they have"


@pytest.mark.soak
async def test_damaged_file_and_folder_in_use_are_refused_in_one_line(kcr: Start, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with kcr("dev", "--data-dir", str(folder), *OPTIONS) as dev:
        await dev.kubeconfig()
        async with kcr("dev", "--data-dir", str(folder)) as second:
            assert await second.end() == 1
            assert second.err == f"kcr: {folder} is in use by another kcr dev: end it, or name another folder\n"
        async with kcr("snapshot", "save", str(tmp_path / "snapshot"), "--data-dir", str(folder)) as save:
            assert await save.end() == 0, save.err
        assert await dev.stop() == 0
    (folder / "kcr.db").write_bytes(b"no database at all" * 1000)
    async with kcr("dev", "--data-dir", str(folder)) as damaged:
        assert await damaged.end() == 1
        assert damaged.err.startswith(f"kcr: {folder}/kcr.db is damaged, or no database of kcr: file is not a database")
        assert damaged.err.count("\n") == 1
    async with kcr("snapshot", "restore", str(tmp_path / "snapshot"), "--data-dir", str(tmp_path / "new")) as restore:
        assert await restore.end() == 0, restore.err
    async with (
        kcr("dev", "--data-dir", str(tmp_path / "new"), *OPTIONS) as dev,
        HttpTransport(load_config(str(await dev.kubeconfig()))) as transport,
    ):
        assert await Client(transport).list(Namespace)


# `kcr` on a disk with little room: no file grows beyond so many bytes.
FULL_DISK = """
import resource
from kcr.cli.main import main

resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
main()
"""


@pytest.mark.soak
async def test_disk_that_becomes_full_ends_the_cluster_in_one_line(kcr: Start, tmp_path: Path) -> None:
    program, folder = tmp_path / "on_full_disk.py", tmp_path / "data"
    program.write_text(FULL_DISK)
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many"},
        "spec": {"completions": 1000, "parallelism": 10, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "one", "image": "x"}],
        }}},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    arguments = ("dev", "--data-dir", str(folder), "--runtime", "simulated", "-f", str(tmp_path / "job.yaml"), "--wait")
    async with kcr(*arguments, program=str(program)) as dev:
        assert await dev.end() == 1
        *before, last = dev.err.splitlines()
    assert last == (
        f"kcr: cannot write {folder}/kcr.db: disk I/O error: free some space, and start it again: "
        "it continues from there"
    )
    assert "cannot write" not in "\n".join(before)
