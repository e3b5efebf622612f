"""What is read of the nodes that pods wait for."""

import pytest

from kcr.api.core import Pod, PodSpec
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.controllers.job.pod_context import read_pod_context
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

NODE = {"kind": "Node", "metadata": {"name": "n1"}}


def pod(name: str, node: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="shop"), spec=PodSpec(node_name=node))


async def test_node_is_known_though_nodes_cannot_be_listed() -> None:
    script = Script(Say(NODE), failure(403), Say({"metadata": {}, "items": []}))
    found = await read_pod_context(Client(script), [pod("a", "n1"), pod("b")], "delete it")
    assert list(found.nodes) == ["n1"]
    assert not script.answers
