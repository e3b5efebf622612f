"""The table of kubectl's commands, on one `kcr dev`."""

import asyncio
import os
from collections.abc import Mapping

import pytest

from tests.e2e.command_table import Story, lines, stories, tell
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Start

pytestmark = [pytest.mark.e2e]

# The lines of docs/spec/api-server.md §28 that are commands of kubectl.
LINES = {
    "cold start", "get pods", "get -o", "get --sort-by", "get x -w", "get -w", "get all", "describe pod",
    "describe job", "describe ns", "apply", "apply --server-side", "create -f", "create", "create --from", "run",
    "replace", "patch", "label", "scale", "delete", "delete -l", "wait", "wait --for=delete", "logs pod", "logs job",
    "logs -l", "events", "auth", "create token", "explain",
}  # fmt: skip
# The lines of features beside it.
FEATURES = {
    "autoscale", "events.k8s.io", "apiservices", "metrics", "older watches", "warnings", "validation", "drain",
    "rollout", "expose", "diff", "edit",
}  # fmt: skip


def test_each_line_of_the_specification_has_a_row() -> None:
    assert lines() >= LINES | FEATURES


@pytest.mark.soak
@pytest.mark.asyncio
@pytest.mark.timeout(120)
@NEEDS_KUBECTL
async def test_commands_do_what_the_table_says(kcr: Start, environment: Mapping[str, str]) -> None:
    processes = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    wrong: list[str] = []

    async def follow(kubectl: Kubectl, story: Story) -> None:
        wrong.extend(await tell(kubectl, story, processes))

    async with kcr("dev", "--runtime", "process") as dev:
        # An editor that changes nothing.
        kubectl = Kubectl(await dev.kubeconfig(), {**environment, "KUBE_EDITOR": "true"})
        async with asyncio.TaskGroup() as group:
            for story in stories():
                group.create_task(follow(kubectl, story))
    assert not wrong, "\n".join(wrong)
