"""No alarm: the controllers of Jobs and CronJobs, and the operators of the examples, survive every fault."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

import kcr
from examples.jobset.api import JobSet
from examples.jobset.controller import setup as setup_jobsets
from examples.website.api import Website, WebsiteSpec
from examples.website.controller import setup as setup_websites
from kcr.api.batch import CronJob, Job
from kcr.testing import explore
from kcr_devcluster.testing.explore import World

# All faults in `make soak`; none but the runs without one in `make test`.
SECONDS = [
    pytest.param(0, marks=pytest.mark.timeout(60), id="without-faults"),
    pytest.param(1800, marks=[pytest.mark.soak, pytest.mark.timeout(0)], id="all-faults"),
]
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
TRAINING: dict[str, Any] = yaml.safe_load(Path("examples/jobset/manifests/training.yaml").read_text(encoding="utf-8"))
# The workers end, and then the leader is stopped: what ends at one moment could be seen in either order.
_LEADER = TRAINING["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
_LEADER["metadata"] = {"annotations": {"sim.kcr.dev/run-for": "100000s"}}


def metadata(world: World, name: str) -> dict[str, str]:
    return {"name": name, "namespace": world.namespace}


async def website(world: World) -> None:
    key = kcr.Key(world.namespace, "shop")
    site = Website(
        metadata=kcr.ObjectMeta(name=key.name, namespace=key.namespace), spec=WebsiteSpec(title="Shop", html="one")
    )
    await world.client.create(site)
    await world.settled()
    await world.client.merge_patch(Website, key, {"spec": {"html": "two"}})
    await world.settled()
    await world.client.delete(Website, key)


async def job(world: World) -> None:
    manifest = {
        "metadata": metadata(world, "work"),
        "spec": {"parallelism": 2, "completions": 3, "template": {"spec": POD}},
    }
    await world.client.create_manifest(Job, manifest)
    await world.settled()
    await world.client.delete(Job, kcr.Key(world.namespace, "work"))


async def cron_job(world: World) -> None:
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}
    await world.client.create_manifest(CronJob, {"metadata": metadata(world, "tick"), "spec": spec})
    await asyncio.sleep(700)
    key = kcr.Key(world.namespace, "tick")
    await world.client.merge_patch(CronJob, key, {"spec": {"suspend": True}})
    await world.settled()
    await world.client.delete(CronJob, key)


async def jobset(world: World) -> None:
    await world.client.create_manifest(JobSet, {**TRAINING, "metadata": metadata(world, "training")})
    await world.settled()
    await world.client.delete(JobSet, kcr.Key(world.namespace, "training"))


@pytest.mark.parametrize("seconds", SECONDS)
def test_websites_survive_every_fault(seconds: float) -> None:
    report = explore(website, setup_websites, kinds=[Website], seconds=seconds)
    assert len(report.writes) > 10


@pytest.mark.parametrize("seconds", SECONDS)
def test_jobs_survive_every_fault(seconds: float) -> None:
    report = explore(job, "job", finish_pods=True, deployments=False, seconds=seconds)
    assert len(report.writes) > 10


@pytest.mark.parametrize("seconds", SECONDS)
def test_cron_jobs_survive_every_fault(seconds: float) -> None:
    report = explore(cron_job, "cronjob", controllers=["job"], finish_pods=True, deployments=False, seconds=seconds)
    assert len(report.writes) > 4


@pytest.mark.parametrize("seconds", SECONDS)
def test_jobsets_survive_every_fault(seconds: float) -> None:
    options: dict[str, Any] = {"kinds": [JobSet], "controllers": ["job"], "deployments": False, "seconds": seconds}
    report = explore(jobset, setup_jobsets, **options)
    assert len(report.writes) > 4
