"""Mount namespaces of this machine. What cannot be tried here is skipped."""

import os
from pathlib import Path

import pytest
import pytest_asyncio

from kcr.clock import SystemClock
from kcr_devcluster.cluster.node.commands import CommandError, CommandResult, exec_sync
from kcr_devcluster.cluster.node.logs import Log
from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.command_process import ContainerScope
from kcr_devcluster.cluster.node.process.container_mounts import Mount, MountNamespace, detect_namespaces
from kcr_devcluster.cluster.node.process.mount_namespace import WITH_USER, unstartable
from kcr_devcluster.cluster.node.process.processes import spawn
from kcr_devcluster.cluster.node.process.programs import StartError

pytestmark = pytest.mark.asyncio


class Volumes:
    """Volumes `v` and `w` with a file each, and a container that mounts them."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.staging = folder / "staging"
        self.staging.mkdir()
        for name in ("v", "w"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(f"{name}\n")

    def machine_has(self, path: str) -> bool:
        return Path(path).exists()

    async def run(self, script: str, *mounts: tuple[str, str, bool], directory: str = "/") -> str:
        """Run a script with mounts (volume, mountPath, whether read-only), and return what it prints."""
        log = Log(SystemClock())
        mounted = tuple(Mount(name, str(self.folder / name), target, fixed) for name, target, fixed in mounts)
        namespace = MountNamespace(self.kind, self.staging, mounted)
        scope = ContainerScope({"PATH": os.environ["PATH"]}, Path(directory))
        run = await spawn(("sh", "-c", script), scope, KubeletContainer(), log, namespace)
        await run.wait()
        return log.read().decode()


@pytest_asyncio.fixture(params=["detected", WITH_USER])
async def volumes(tmp_path: Path, request: pytest.FixtureRequest) -> Volumes:
    made = Volumes(tmp_path, request.param)
    support = await detect_namespaces(made.staging)
    if not support.kind:
        pytest.skip(support.reason)
    if request.param == "detected":
        made.kind = support.kind
    return made


async def test_volume_is_mounted_where_nothing_is(volumes: Volumes) -> None:
    said = await volumes.run("cat /kcr-test/deep/file; ls -d /usr /etc", ("v", "/kcr-test/deep", False))
    assert said == "v\n/etc\n/usr\n"
    assert not volumes.machine_has("/kcr-test")


async def test_rebuilt_directory_shows_its_entries(volumes: Volumes) -> None:
    said = await volumes.run("cat /etc/kcr-test/file; test -s /etc/passwd && echo there", ("v", "/etc/kcr-test", False))
    assert said == "v\nthere\n"
    assert not volumes.machine_has("/etc/kcr-test")


async def test_link_above_a_mount_path_is_followed(volumes: Volumes, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "w")
    said = await volumes.run(f"cat {tmp_path}/w/inner/file", ("v", f"{tmp_path}/link/inner", False))
    assert said == "v\n"
    assert not (tmp_path / "w" / "inner").exists()


async def test_read_only_volume_refuses_writes(volumes: Volumes) -> None:
    script = "echo x > /kcr-a/new || echo refused; echo x > /kcr-b/new && cat /kcr-b/new"
    said = await volumes.run(script, ("v", "/kcr-a", True), ("w", "/kcr-b", False))
    assert said.splitlines()[-2:] == ["refused", "x"]
    assert (volumes.folder / "w" / "new").exists()


async def test_mounts_are_nested_in_read_only_ones(volumes: Volumes) -> None:
    said = await volumes.run("cat /kcr-a/in/file /kcr-a/file", ("w", "/kcr-a/in", False), ("v", "/kcr-a", True))
    assert said == "w\nv\n"


async def test_source_may_be_hidden_by_another_mount(volumes: Volumes) -> None:
    over = (("v", str(volumes.folder), False), ("w", "/kcr-b", False))
    assert await volumes.run(f"cat {volumes.folder}/file /kcr-b/file", *over) == "v\nw\n"


async def test_volume_over_the_temporary_directory_is_no_obstacle(volumes: Volumes) -> None:
    # The staging directory is below it.
    said = await volumes.run("cat /tmp/file /kcr-b/c/file", ("v", "/tmp", False), ("w", "/kcr-b/c", False))
    assert said == "v\nw\n"


async def test_file_is_mounted_as_a_file(volumes: Volumes) -> None:
    assert await volumes.run("cat /kcr-test/key", ("v/file", "/kcr-test/key", True)) == "v\n"


async def test_user_and_environment_stay_the_same(volumes: Volumes) -> None:
    said = await volumes.run("id -u; id -g; env | grep -v -e PWD -e _= -e SHLVL -e OLDPWD", ("v", "/kcr-test", False))
    assert said.splitlines() == [str(os.getuid()), str(os.getgid()), f"PATH={os.environ['PATH']}"]


async def test_working_directory_is_in_the_namespace(volumes: Volumes) -> None:
    assert await volumes.run("pwd; cat file", ("v", "/kcr-test", False), directory="/kcr-test") == "/kcr-test\nv\n"


async def test_program_in_a_volume_is_found(volumes: Volumes) -> None:
    program = volumes.folder / "v" / "run"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert await volumes.run("/kcr-test/run", ("v", "/kcr-test", True)) == "ran\n"


async def test_broken_pipe_ends_a_program(volumes: Volumes) -> None:
    # Python ignores SIGPIPE, and what it starts must not.
    said = await volumes.run("(while echo x; do :; done; echo went on >&2) | head -1", ("v", "/kcr-test", False))
    assert said == "x\n"


async def test_what_cannot_be_mounted_or_started_says_why(volumes: Volumes) -> None:
    with pytest.raises(StartError, match=r'working directory "/kcr-test/gone": no such directory'):
        await volumes.run("true", ("v", "/kcr-test", False), directory="/kcr-test/gone")
    with pytest.raises(StartError, match=r"mount /etc/passwd: a directory cannot be mounted onto a file"):
        await volumes.run("true", ("v", "/etc/passwd", False))


async def test_other_command_enters_the_namespace(volumes: Volumes) -> None:
    mounts = (Mount("v", str(volumes.folder / "v"), "/kcr-test", read_only=False),)
    namespace = MountNamespace(volumes.kind, volumes.staging, mounts)
    scope = ContainerScope({"PATH": os.environ["PATH"]}, Path("/kcr-test"))
    run = await spawn(("sleep", "60"), scope, KubeletContainer(), Log(SystemClock()), namespace)
    try:
        said = await exec_sync(run, ("sh", "-c", "pwd; cat file; id -u"))
        with pytest.raises(CommandError, match=r'exec: "no-such": executable file not found in \$PATH'):
            await exec_sync(run, ("no-such",))
    finally:
        run.kill()
        await run.wait()
    assert said == CommandResult(0, f"/kcr-test\nv\n{os.getuid()}\n".encode())


@pytest.mark.parametrize(
    ("program", "directory", "why"),
    [
        pytest.param("sh", "/", "", id="in-the-path"),
        pytest.param("/bin/sh", "/", "", id="by-its-path"),
        pytest.param("no-such", "/", 'exec: "no-such": executable file not found in $PATH', id="nowhere"),
        pytest.param("/no/such", "/", 'exec: "/no/such": no such file or directory', id="no-file"),
        pytest.param("/etc", "/", 'exec: "/etc": permission denied', id="directory"),
        pytest.param("sh", "/no", 'working directory "/no": no such directory', id="no-directory"),
    ],
)
async def test_what_cannot_start_is_told_before(program: str, directory: str, why: str) -> None:
    assert unstartable(program, os.environ["PATH"], directory) == why
