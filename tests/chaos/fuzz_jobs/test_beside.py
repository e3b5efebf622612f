"""The comparison of two worlds: kcr beside kcr in virtual time; beside kube-controller-manager where there is one."""

import asyncio
from random import Random

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.chaos.fuzz_jobs.beside import Found, Pace, compare, world_of
from tests.chaos.fuzz_jobs.control_plane import both_controllers_plane, find_program, run_beside
from tests.chaos.fuzz_jobs.scenarios import Scenario, scenario_of
from tests.chaos.fuzz_jobs.views import KNOWN
from tests.kit.crash import in_virtual_time
from tests.kit.differences import known_differences
from tests.kit.environment import setting
from tests.kit.harness import job_controller

SEEDS = int(setting("KCR_FUZZ_SEEDS", "2000"))


async def beside_itself(scenario: Scenario, other: Scenario) -> list[Found]:
    """Run two scenarios side by side, both with kcr's controller."""
    clock = VirtualClock()
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        upstream = await world_of(cluster.client, clock, scenario, "upstream")
        ours = await world_of(cluster.client, clock, other, "ours")
        async with job_controller(cluster, clock):
            return await compare(scenario, upstream, ours, Pace())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(8))
def test_controller_beside_itself_differs_in_nothing(seed: int) -> None:
    scenario = scenario_of(seed)
    assert in_virtual_time(beside_itself(scenario, scenario)) == []


@pytest.mark.timeout(60)
def test_difference_is_found_at_the_next_quiet_point_and_ends_the_scenario() -> None:
    scenario = scenario_of(0)
    spec = scenario.job["spec"]
    other = scenario._replace(
        job={**scenario.job, "spec": {**spec, "parallelism": spec["parallelism"] + 1, "completions": 9}}
    )
    (found,) = in_virtual_time(beside_itself(scenario, other))
    assert (found.after, found.known) == ("create", "")
    assert "active" in {one.field for one in found.differences}


def test_every_difference_that_is_explained_has_a_row() -> None:
    assert KNOWN.keys() <= known_differences().keys()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_controllers_differ_in_nothing_without_a_row() -> None:
    programs = find_program()
    if programs is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with kube-controller-manager")
    with both_controllers_plane(*programs) as config:
        assert asyncio.run(run_beside(config, range(SEEDS))) == []
