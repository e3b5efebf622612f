"""Several `kcr dev` of one user: each has a kubeconfig file of its own."""

import re
import signal
from pathlib import Path

import pytest

from kcr.api.core import Namespace
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from tests.e2e.processes import Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

DEV = ("dev", "--no-controllers", "--runtime", "simulated")


async def assert_usable(kubeconfig: Path) -> None:
    async with HttpTransport(load_config(str(kubeconfig))) as transport:
        assert (await Client(transport).get(Namespace, Key("", "default"))).metadata.name == "default"


def assert_last_line_names_no_missing_file(dev: Running) -> None:
    last = dev.err.splitlines()[-1]
    assert not re.findall(r"\S+\.kubeconfig", last), dev.err


@pytest.mark.parametrize("first_ends_first", [True, False], ids=["first-ends-first", "second-ends-first"])
@pytest.mark.soak
async def test_two_clusters_have_a_file_each(kcr: Start, first_ends_first: bool) -> None:
    async with kcr(*DEV) as first:
        default = await first.kubeconfig()
        assert default.name == "dev.kubeconfig"
        async with kcr(*DEV) as second:
            other = await second.kubeconfig()
            assert other.name == "dev-2.kubeconfig"
            assert f"{default} belongs to another kcr dev" in second.err
            await assert_usable(default)
            await assert_usable(other)
            ends, stays = (first, second) if first_ends_first else (second, first)
            gone, kept = (default, other) if first_ends_first else (other, default)
            assert await ends.stop() == 0, ends.err
            assert_last_line_names_no_missing_file(ends)
            assert not gone.exists()
            await assert_usable(kept)
            assert await stays.stop() == 0, stays.err
            assert_last_line_names_no_missing_file(stays)
    assert not list(default.parent.glob("*"))


@pytest.mark.soak
async def test_file_of_a_killed_one_is_taken_over(kcr: Start) -> None:
    async with kcr(*DEV) as first, kcr(*DEV) as second:
        default = await first.kubeconfig()
        other = await second.kubeconfig()
        assert await first.stop(signal.SIGKILL) != 0
        async with kcr(*DEV) as third:
            assert await third.kubeconfig() == default
            await assert_usable(default)
            await assert_usable(other)
            assert await third.stop() == 0
            assert not default.exists()
            await assert_usable(other)


@pytest.mark.soak
async def test_two_that_start_at_once_share_nothing(kcr: Start) -> None:
    async with kcr(*DEV) as first, kcr(*DEV) as second:
        files = {await first.kubeconfig(), await second.kubeconfig()}
        assert {file.name for file in files} == {"dev.kubeconfig", "dev-2.kubeconfig"}
        for file in files:
            await assert_usable(file)


@pytest.mark.soak
async def test_named_file_in_use_is_refused(kcr: Start, tmp_path: Path) -> None:
    path = tmp_path / "mine.kubeconfig"
    async with kcr(*DEV, "--kubeconfig", str(path)) as first:
        assert await first.kubeconfig() == path
        async with kcr(*DEV, "--kubeconfig", str(path)) as second:
            assert await second.end() == 1
            line = f"kcr: {path} belongs to another kcr dev that still runs: name another file with --kubeconfig\n"
            assert second.err.endswith(line)
        await assert_usable(path)
