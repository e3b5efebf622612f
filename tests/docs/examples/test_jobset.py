"""The JobSet's definition, chart and rights are generated from its code, and its object is valid."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

import kcr
from examples.jobset.api import JobSet
from examples.jobset.controller import setup
from kcr.api.batch import Job
from kcr.api.full.rbac_v1 import ClusterRole, ClusterRoleBinding
from kcr.app.rbac import declared_by
from kcr.cli.main import exit_code_of
from kcr.testing import FakeManager, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.roles import rbac_manifests
from tests.kit.documents import ROOT
from tests.kit.harness import job_controller

FOLDER = ROOT / "examples" / "jobset"
DEFINITION = ROOT / "examples/jobset/manifests/example.dev_jobsets.yaml"
MANIFEST = yaml.safe_load((ROOT / "examples/jobset/manifests/training.yaml").read_text(encoding="utf-8"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")
GENERATE = [line for line in README.splitlines() if line.startswith("kcr ") and " generate " in line]
KEY = kcr.Key("default", "training")
DOCSTRING = re.compile(r'^ *""".*?"""\n', re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("command", GENERATE, ids=lambda line: line.split()[1])
def test_files_are_what_the_commands_generate(command: str, tmp_path: Path) -> None:
    *arguments, target = shlex.split(command)[1:]
    made = tmp_path / Path(target).name
    assert exit_code_of([*arguments, str(made)]) == 0
    for path in [made] if made.is_file() else made.iterdir():
        kept = ROOT / target if made.is_file() else ROOT / target / path.name
        assert path.read_text() == kept.read_text(), f"run: {command}"


def test_all_generated_files_have_a_command() -> None:
    assert len(GENERATE) == 4
    assert yaml.safe_load(DEFINITION.read_text(encoding="utf-8")) == kcr.crd_manifest(JobSet)


def test_code_has_at_most_300_lines() -> None:
    modules = (path for path in FOLDER.glob("*.py") if not path.name.startswith("test_"))
    lines = [line.strip() for path in modules for line in DOCSTRING.sub("", path.read_text()).splitlines()]
    code = [line for line in lines if line and not line.startswith("#")]
    assert 250 < len(code) <= 300


def test_chart_is_that_of_the_website() -> None:
    website = ROOT / "examples" / "website" / "chart"
    for name in ("values.yaml", "templates/crds.yaml", "templates/deployment.yaml", "templates/sharding.yaml"):
        expected = (website / name).read_text().replace("website", "jobset").replace("Website", "JobSet")
        assert (FOLDER / "chart" / name).read_text() == expected


@pytest.mark.kcr_virtual
async def test_object_is_valid() -> None:
    client = FakeManager(kinds=[JobSet]).client.with_options(field_validation="Strict")
    made = await client.create_manifest(JobSet, MANIFEST, "default")
    assert [one.replicas for one in made.spec.replicated_jobs] == [1, 2]


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[JobSet], authorization="rbac")
async def test_generated_role_is_all_that_the_controller_needs(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wanted, account = declared_by({"jobset": setup}, {}).rights, kcr.Key("default", "operator")
    _, role, binding = rbac_manifests(wanted, name="operator", account=account, namespace="", elects=False)
    client = kcr_cluster.client
    await client.create_manifest(ClusterRole, role)
    await client.create_manifest(ClusterRoleBinding, binding)
    manager = kcr.Manager(kcr_cluster.client_as("system:serviceaccount:default:operator"), clock=kcr_clock)
    setup(manager)

    async def is_gone() -> bool:
        return not [*await client.list(JobSet), *await client.list(Job)]

    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock), manager.running():
            body = MANIFEST | {"spec": MANIFEST["spec"] | {"suspend": True, "ttlSecondsAfterFinished": 60}}
            await client.create_manifest(JobSet, body, "default")
            await kcr_clock.advance(5)
            await client.merge_patch(JobSet, KEY, {"spec": {"suspend": False}})
            await eventually(is_gone, seconds=300)
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
