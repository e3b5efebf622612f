"""Where the talk of `kcr dev` goes: a terminal, one that cannot be drawn on, and none at all."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

KCR = str(Path(sys.executable).with_name("kcr"))
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: greeting}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [sh, -c, "sleep 1; echo hello π"]}]
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


class Terminal:
    """A pseudo-terminal: `side` is the program's, and `text` what has come out of it so far."""

    def __init__(self) -> None:
        self._ours, self.side = os.openpty()
        self.text = ""
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _read(self) -> None:
        self.text += os.read(self._ours, 65536).decode()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.side)


@pytest.mark.soak
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("variables", "out"),
    [
        pytest.param({"TERM": "dumb", "LC_ALL": "C.UTF-8"}, "hello π\n", id="dumb"),
        pytest.param({"TERM": "xterm", "PYTHONIOENCODING": "ascii"}, "hello \\u03c0\n", id="without-utf-8"),
    ],
)
async def test_terminal_without_pictures_shows_plain_lines(
    kcr: Start, manifest: str, variables: Mapping[str, str], out: str
) -> None:
    terminal = Terminal()
    async with kcr("dev", "-f", manifest, "--wait", terminal=terminal.side, **variables) as dev:
        assert await dev.end() == 0, terminal.text
        assert dev.out == out
    lines = terminal.text.splitlines()
    terminal.close()
    assert lines[0] == "kcr dev: a cluster in this process, until its Jobs have ended"
    assert lines.count(lines[0]) == 1
    assert "\x1b" not in terminal.text
    assert any(line.startswith("job greeting: Complete in ") for line in lines)
    assert terminal.text.isascii()
    # Where to look is for clusters that stay.
    assert "kubectl" not in terminal.text
    assert "page http" not in terminal.text


@pytest.mark.parametrize("closed", ["2>&-", "2>&- <&-"])
@pytest.mark.soak
def test_closed_stderr_leaves_the_data_alone(manifest: str, environment: Mapping[str, str], closed: str) -> None:
    command = f'exec "{KCR}" dev -f {manifest} --wait {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert done.stdout.decode() == "hello π\n"


@pytest.mark.soak
def test_reader_of_the_talk_that_goes_stops_nothing(manifest: str, environment: Mapping[str, str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [KCR, "dev", "-f", manifest, "--wait"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    assert done.returncode == 0
    assert done.stdout.decode() == "hello π\n"


def test_first_words_come_before_what_is_slow_to_import() -> None:
    code = "import sys, kcr.cli.main, kcr_devcluster.dev.command; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "kcr.client", "kcr.manager", "kcr_devcluster.apiserver"} & set(loaded)
