"""`kcr rehearse`: two versions of an operator, each in a process of its own, on a snapshot."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from kcr.app.logs import configure_logs
from kcr.app.plugins import attach, find_plugins
from kcr.cli.main import exit_code_of
from kcr.client import Client
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.kinds import KindSource
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.snapshot_file import Head, write_snapshot
from kcr_devcluster.rehearsal.taking import take, wanted_by
from kcr_devcluster.testing.loop import START, VirtualClock, VirtualLoop
from tests.kit.command_lines import assert_refused

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("logs_of_commands")]

OPERATOR = """
import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap

PARTS = ("front", "back")


class ShopSpec(kcr.Object):
    color: str = ""


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops"):
    spec: ShopSpec


class Shops:
    def __init__(self, manager):
        self.client, self.shops, self.maps = manager.client, manager.store(Shop), manager.store(ConfigMap)

    async def reconcile(self, key):
        shop = self.shops.get(key)
        if shop is None:
            return kcr.Result()
        names = {f"{key.name}-{part}" for part in PARTS}
        for name in sorted(names):
            metadata = kcr.ObjectMeta(name=name, namespace=key.namespace)
            await self.client.apply(kcr.set_controller(ConfigMap(metadata=metadata, data={"part": name}), shop))
        for one in self.maps.list(key.namespace):
            if one.metadata.name.startswith(f"{key.name}-") and one.metadata.name not in names:
                await self.client.delete(ConfigMap, one.key)
        return kcr.Result(requeue_after=600)


def setup(manager):
    rights = kcr.rights(ConfigMap, "get", "create", "patch", "delete")
    watches = [kcr.watch(Shop), kcr.owned(ConfigMap, by=Shop)]
    manager.add_controller("shops", Shops(manager), watches=watches, rights=rights)
"""
# Definitions of the kind, for the cluster that the snapshot is taken of.
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.dev"},
    "spec": {
        "group": "example.dev", "scope": "Namespaced", "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip


class Folders(NamedTuple):
    """Two versions, each with an environment in its folder, and a snapshot."""

    old: Path
    new: Path
    snapshot: Path

    def arguments(self, *more: str) -> list[str]:
        old, new = (str(one / ".venv") for one in (self.old, self.new))
        return ["rehearse", str(self.snapshot), "--old", old, "--new", new, *more]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    found = Folders(tmp_path / "old", tmp_path / "new", tmp_path / "prod.kcr")
    for one in (found.old, found.new):
        one.mkdir()
        (one / ".venv").symlink_to(sys.prefix)
        (one / "shops.py").write_text(OPERATOR)
    return found


def change(folder: Path, *changes: tuple[str, str]) -> None:
    text = OPERATOR
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "shops.py").write_text(text)


def take_shops(folders: Folders, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a snapshot of a cluster where the old version has run."""
    monkeypatch.chdir(folders.old)
    monkeypatch.syspath_prepend(str(folders.old))
    crd = folders.old / "crd.json"
    crd.write_text(json.dumps(CRD))
    shops = [
        {
            "apiVersion": "example.dev/v1",
            "kind": "Shop",
            "metadata": {"name": f"shop{number}", "namespace": "default"},
            "spec": {"color": "blue"},
        }
        for number in range(count)
    ]
    try:
        _take(folders.snapshot, ("shops:setup",), {"/apis/example.dev/v1/namespaces/default/shops": shops}, [str(crd)])
    finally:
        sys.modules.pop("shops", None)


def _take(
    file: Path, names: tuple[str, ...], objects: Mapping[str, list[Any]], kinds: list[KindSource], seconds: float = 30
) -> None:
    clock = VirtualClock()
    configure_logs(None, "critical")

    async def taken() -> None:
        async with EmbeddedCluster(clock=clock, random=Random(7), kinds=kinds) as cluster:
            manager = Manager(Client(cluster.transport), clock=clock, random=Random(7))
            attach(find_plugins(names), manager, {}, take_over=True)
            async with manager.running():
                for path, bodies in objects.items():
                    for body in bodies:
                        await cluster.client.request("POST", path, json.dumps(body).encode())
                await asyncio.sleep(seconds)
            found = await take(cluster.client, wanted_by(manager), DataHider(("configmaps",)))
        head = Head(
            kcr="0.2.0", kubernetes="v1.36.0", server="https://prod", time=START, controllers=names, kinds=found.kinds
        )
        write_snapshot(file, head, found.objects)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(taken())


def test_child_that_the_new_version_deletes_fails_the_upgrade(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_shops(folders, 2, monkeypatch)
    change(folders.new, ('"front", "back"', '"front", "side"'), ('"part": name', '"part": name.upper()'))
    assert exit_code_of(folders.arguments("--for", "2h", "-o", "json")) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "breaks"
    assert {(one["what"], one["object"], one["field"]) for one in found["differences"]} == {
        *(("deletes", f"default/shop{number}-back", "") for number in (0, 1)),
        *(("creates", f"default/shop{number}-side", "") for number in (0, 1)),
        *(("changes", f"default/shop{number}-front", "data.part") for number in (0, 1)),
    }
    patches = next(one for one in found["requests"] if (one["verb"], one["resource"]) == ("patch", "configmaps"))
    # Each shop in its first minute, and every ten minutes from then on.
    assert patches["old_start"] == 4
    assert patches["old_per_hour"] == pytest.approx(24, rel=0.1)
    assert [one["failing"] for one in found["versions"].values()] == [{}, {}]


@pytest.mark.soak
def test_two_versions_that_do_the_same_pass_and_are_shown_as_a_table_and_a_page(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_shops(folders, 1, monkeypatch)
    assert exit_code_of(folders.arguments("--for", "30m", "-o", "html")) == 0
    page = capsys.readouterr().out
    assert "<strong>the new version deletes and replaces nothing that the old one keeps; 0 objects differ" in page
    assert "<td>patch</td><td>configmaps</td>" in page


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(
            "from kcr.api.core import ConfigMap", "from kcr.api.core import ConfigMap, Nothing",
            "ImportError: cannot import name 'Nothing'", id="import", marks=pytest.mark.soak,
        ),
        pytest.param(
            "def setup(manager):", "def setup(manager):\n    raise OSError('no licence')",
            "the operator fails at start: ", id="setup", marks=pytest.mark.soak,
        ),
        pytest.param(
            "        names = {", "        import time; time.sleep(3600)\n        names = {",
            "in reconcile sleeps in real time, which asyncio.sleep does not", id="sleep",
        ),
        pytest.param(
            "        names = {", "        import socket; socket.create_connection(('127.0.0.1', 9))\n        names = {",
            "in reconcile resolves a name", id="connection", marks=pytest.mark.soak,
        ),
        pytest.param(
            "        names = {", "        import os; os.system('true')\n        names = {",
            "in reconcile starts a process", id="process", marks=pytest.mark.soak,
        ),
        pytest.param(
            "        names = {",
            "        import aiohttp\n        async with aiohttp.ClientSession() as session:\n"
            "            await session.get('http://prices.example.dev')\n        names = {",
            "shops default/shop0: ", id="aiohttp", marks=pytest.mark.soak,
        ),
        pytest.param(
            "        names = {", "        while True: pass\n        names = {",
            "in reconcile has blocked the event loop for 30 s", id="endless", marks=pytest.mark.soak,
        ),
        pytest.param(
            "class Shops:", "raise SystemExit(4)\nclass Shops:", "ended with code 4", id="exit", marks=pytest.mark.soak,
        ),
    ],
)  # fmt: skip
def test_version_that_cannot_be_rehearsed_is_named_with_the_cause(
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    said: str,
) -> None:
    take_shops(folders, 1, monkeypatch)
    change(folders.old, (before, after))
    assert exit_code_of(folders.arguments("--for", "10m")) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"kcr: old version, {folders.old / '.venv'}: ")
    assert said in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.soak
def test_definitions_come_with_the_new_version(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_shops(folders, 1, monkeypatch)
    change(folders.new, ('api_version="example.dev/v1"', 'api_version="example.dev/v2"'))
    line = f"kcr: new version, {folders.new / '.venv'}: it watches shops.example.dev, which is not served: give the"
    assert_refused(folders.arguments("--for", "10m"), 2, line, capsys)
    spec: Any = CRD["spec"]
    second = {**spec["versions"][0], "name": "v2", "storage": False}
    crd = folders.new / "crd.json"
    crd.write_text(json.dumps({**CRD, "spec": {**spec, "versions": [*spec["versions"], second]}}))
    assert exit_code_of(folders.arguments("--for", "10m", "--new-crds", str(crd), "-o", "json")) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


@pytest.mark.soak
def test_webhooks_of_each_version_are_called(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_shops(folders, 1, monkeypatch)
    hook = (
        "class Hook:\n    def default(self, obj, request):\n"
        "        return msgspec.structs.replace(obj, data={**obj.data, 'hook': 'called'})\n\n\ndef setup(manager):\n"
        "    manager.add_webhook(ConfigMap, Hook())"
    )
    change(folders.new, ("def setup(manager):", hook), ("import kcr\n", "import kcr\nimport msgspec\n"))
    assert exit_code_of(folders.arguments("--for", "10m", "-o", "json")) == 0
    found = json.loads(capsys.readouterr().out)["differences"]
    assert {(one["field"], one["new"]) for one in found} == {("data.hook", '"called"')}


def test_environment_without_kcr_is_refused(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_shops(folders, 0, monkeypatch)
    (folders.old / ".venv").unlink()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folders.old / ".venv")], check=True)
    line = "there is no kcr in it: pip install 'kcr[test]'"
    assert_refused(folders.arguments(), 2, line, capsys)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param("nothing", "no such file: name the folder of a virtual environment, or an interpreter", id="none"),
        pytest.param("folder", "it has no bin/python: name the folder of a virtual environment", id="no-python"),
        pytest.param("file", "cannot be executed: name the folder of a virtual environment", id="no-program"),
        pytest.param("text", "cannot be started", id="no-format"),
    ],
)
def test_path_that_is_no_environment_is_refused(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], make: str, said: str
) -> None:
    take_shops(folders, 0, monkeypatch)
    path = folders.new / ".venv"
    path.unlink()
    if make == "folder":
        path.mkdir()
    elif make in ("file", "text"):
        path.write_text("no program")
        path.chmod(0o700 if make == "text" else 0o600)
    assert_refused(folders.arguments(), 2, said, capsys)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["--for", "soon"], "Invalid value for --for: time: invalid duration", id="duration"),
        pytest.param(["--for", "0s"], "0s is not above zero", id="no-duration"),
        pytest.param(["--timeout", "soon"], "Invalid value for --timeout: time: invalid duration", id="timeout"),
        pytest.param(["--controllers", ","], "names none", id="no-controllers"),
        pytest.param(["--new-crds", "none.yaml"], "none.yaml: No such file or directory", id="no-definitions"),
    ],
)
def test_wrong_option_is_refused(
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    take_shops(folders, 0, monkeypatch)
    assert_refused(folders.arguments(*arguments), 2, line, capsys)


def test_file_that_is_no_snapshot_is_refused(folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(folders.arguments(), 2, "cannot read", capsys)
    folders.snapshot.write_text("{}")
    assert_refused(folders.arguments(), 2, "is not a snapshot", capsys)


JOBS = {
    "/apis/batch/v1/namespaces/default/jobs": [
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"job-{number}", "namespace": "default"},
            "spec": {
                "completions": 6, "parallelism": 2, "completionMode": mode, "ttlSecondsAfterFinished": 3600,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}},
            },
        }
        for number, mode in enumerate(["NonIndexed", "Indexed"] * 10)
    ],
    "/apis/batch/v1/namespaces/default/cronjobs": [
        {
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "default"},
            "spec": {
                "schedule": "*/15 * * * *", "successfulJobsHistoryLimit": 2,
                "jobTemplate": {"spec": {"template": {"spec": {
                    "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "busybox"}],
                }}}},
            },
        }
    ],
}  # fmt: skip


@pytest.fixture(scope="session")
def former_kcr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with an earlier kcr, from the history of the repository."""
    root, folder = Path(__file__).parents[2], tmp_path_factory.mktemp("former")
    revision = "9e9ee38f"
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("there is no history of kcr here")
    archive = subprocess.run(["git", "-C", str(root), "archive", revision], check=False, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history has no commit {revision}")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    # Its dependencies are those of this environment, and kcr comes first.
    sites = next((environment / "lib").glob("python*")) / "site-packages"
    own = next(Path(one) for one in sys.path if one.startswith(sys.prefix) and one.endswith("site-packages"))
    (sites / "former.pth").write_text(f"{folder}\n{folder / 'devcluster'}\n")
    for one in own.iterdir():
        # Editable installations of this kcr stay outside.
        if "kcr" not in one.name and one.suffix != ".pth" and not (sites / one.name).exists():
            (sites / one.name).symlink_to(one)
    build = [str(environment / "bin" / "python"), "-c", EGG]
    for project in (folder, folder / "devcluster"):
        subprocess.run(build, cwd=project, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(own)})
    return environment


# Entry points, by which controllers are found, are in the metadata of a package.
EGG = "from setuptools import setup; import sys; sys.argv = ['setup.py', '-q', 'egg_info']; setup()"


@pytest.mark.soak
def test_job_controllers_of_two_versions_of_kcr_do_the_same(
    tmp_path: Path, former_kcr: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jobs.kcr"
    _take(file, ("job", "cronjob", "ttl"), JOBS, [], seconds=0.5)
    arguments = ["rehearse", str(file), "--old", str(former_kcr), "--new", sys.prefix, "--for", "2h", "-o", "json"]
    assert exit_code_of(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["old"]["kcr"] != found["versions"]["new"]["kcr"]
    assert found["differences"] == []
    created = {one["resource"]: one["new_start"] + one["new_per_hour"] for one in found["requests"]}
    assert created["pods"] > 0
