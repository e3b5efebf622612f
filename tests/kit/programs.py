"""A program of one's own, as a text: a controller that labels each namespace."""

PROGRAM = """
import kcr
from kcr.api.core import Namespace


class Greeter:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])


kcr.run(setup)
"""


def with_own_options(call: str) -> str:
    """The program with an option of its own, and another call of `kcr.run`."""
    parsing = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--greeting")
parser.parse_args()
"""
    return PROGRAM.replace("kcr.run(setup)", parsing + call)
