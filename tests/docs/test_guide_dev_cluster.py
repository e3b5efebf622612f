"""The guide on the cluster of `kcr dev`: the test in it passes, as a reader would paste it."""

import re
from collections.abc import Mapping

import pytest

from kcr_devcluster.apiserver.plugins import (
    DefaultIngressClass,
    DefaultStorageClass,
    DefaultTolerationSeconds,
    PersistentVolumeClaimResize,
    PodTopologyLabels,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
)
from kcr_devcluster.apiserver.pod_security import PodSecurityAdmission
from kcr_devcluster.apiserver.quota import LimitRangeAdmission, QuotaAdmission
from kcr_devcluster.apiserver.registry.priority import PriorityAdmission
from kcr_devcluster.apiserver.registry.registry import ADMISSION
from kcr_devcluster.apiserver.registry.runtime_classes import RuntimeClassAdmission
from kcr_devcluster.apiserver.registry.service_accounts import ServiceAccountAdmission
from kcr_devcluster.apiserver.registry.service_addresses import ServiceAddresses
from kcr_devcluster.apiserver.storage.admission import AdmissionStep
from tests.kit.documents import ROOT, blocks, files, run_tests_of

GUIDE, NODES = (ROOT / "docs" / "guide" / name for name in ("dev-cluster.md", "dev-nodes.md"))


def test_every_program_of_the_guide_is_run() -> None:
    assert [block.file for block in blocks(NODES) if block.language == "python"] == list(files(NODES))
    assert not files(GUIDE)


@pytest.mark.timeout(120)
def test_silent_node_of_the_guide_does_what_it_says(pytester: pytest.Pytester) -> None:
    said = run_tests_of(files(NODES), pytester)
    assert re.search(r"^1 passed", said, re.MULTILINE), said


# The plugins that the steps of the server stand for. Addresses of Services are no admission upstream.
STEPS: Mapping[type[AdmissionStep], str] = {
    DefaultIngressClass: "DefaultIngressClass",
    DefaultStorageClass: "DefaultStorageClass",
    DefaultTolerationSeconds: "DefaultTolerationSeconds",
    LimitRangeAdmission: "LimitRanger",
    PersistentVolumeClaimResize: "PersistentVolumeClaimResize",
    PodSecurityAdmission: "PodSecurity",
    PodTopologyLabels: "PodTopologyLabels",
    PriorityAdmission: "Priority",
    QuotaAdmission: "ResourceQuota",
    RuntimeClassAdmission: "RuntimeClass",
    ServiceAccountAdmission: "ServiceAccount",
    ServiceAddresses: "",
    StorageObjectInUseProtection: "StorageObjectInUseProtection",
    TaintNodesByCondition: "TaintNodesByCondition",
}
# Source: kubernetes/pkg/kubeapiserver/options/plugins.go, DefaultOffAdmissionPlugins, release 1.36.
ON_BY_DEFAULT = (
    "NamespaceLifecycle", "LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity", "Priority",
    "DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PersistentVolumeClaimResize",
    "RuntimeClass", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest", "DefaultIngressClass", "PodTopologyLabels", "NodeDeclaredFeatureValidator",
    "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook",
    "ResourceQuota",
)  # fmt: skip


def plugins() -> dict[str, str]:
    """The cells of the table of plugins, by plugin."""
    section = GUIDE.read_text().partition("## Admission plugins\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name: cell.strip() for names, cell in rows for name in re.findall(r"`(\w+)`", names)}


def test_table_has_all_plugins_of_the_default_chain() -> None:
    assert set(ON_BY_DEFAULT) <= plugins().keys()


def test_table_says_of_every_admission_step_that_it_has_its_effect() -> None:
    assert set(ADMISSION) == STEPS.keys()
    shown = plugins()
    assert [name for name in STEPS.values() if name and re.match("no[:;]", shown[name])] == []
