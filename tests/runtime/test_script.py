"""A script that uses the library without `kcr.run`, and configures no logging."""

import subprocess
import sys

SCRIPT = """
import asyncio
import random

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.clock import SystemClock
from kcr_devcluster.transport import serve_in_process


class Copier:
    async def reconcile(self, key):
        return kcr.Result()


async def main():
    client = kcr.Client(serve_in_process((), clock=SystemClock(), random=random.Random(0)))
    manager = kcr.Manager(client)
    manager.add_controller("copier", Copier(), watches=[kcr.watch(ConfigMap)])
    recorder = manager.recorder("copier")
    async with manager.running():
        made = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        recorder.event(made, "Normal", "Copied", "copied it")
        while Key("default", "a") not in [one.key for one in manager.store(ConfigMap).list()]:
            await asyncio.sleep(0.01)
        await client.delete(ConfigMap, made.key)
    print("done")


asyncio.run(main())
"""


def test_script_with_a_client_and_an_informer_prints_its_own_lines_only() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
