import sys

import pytest

from kcr_devcluster.apiserver.http.openapi.definitions import METADATA, full_name
from kcr_devcluster.apiserver.http.openapi.prose import installed_prose, own_prose
from kcr_devcluster.apiserver.schema.builtin import type_facts
from kcr_devcluster.versions import VERSIONS, KubernetesVersion

JOB_SPEC = "io.k8s.api.batch.v1.JobSpec"


@pytest.mark.parametrize("version", VERSIONS)
def test_installed_document_describes_types_and_fields(version: KubernetesVersion) -> None:
    prose = installed_prose(version)
    assert prose.of_type("io.k8s.api.batch.v1.Job") == "Job represents the configuration of a single job."
    assert prose.of_field(JOB_SPEC, "suspend").startswith("suspend specifies whether the Job controller should create")
    assert (prose.of_type("io.none"), prose.of_field(JOB_SPEC, "none")) == ("", "")


@pytest.mark.parametrize("field", ["selector", "manualSelector"])
def test_fields_that_are_misused_are_described_without_it(field: str) -> None:  # api-server §4.3
    assert "not unique" in own_prose().of_field(JOB_SPEC, field)


def test_metadata_is_described_without_the_published_document() -> None:
    prose, name = own_prose(), full_name(METADATA)
    described = {field: prose.of_field(name, field) for field in type_facts(METADATA)}
    assert prose.of_type(name)
    assert described["creationTimestamp"].startswith("CreationTimestamp is a timestamp")
    assert [field for field, text in described.items() if not text] == []


def test_document_is_read_without_importing_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kubernetes_validate", raising=False)
    installed_prose.cache_clear()
    assert installed_prose(VERSIONS[0]).of_type("io.k8s.api.batch.v1.Job")
    assert "kubernetes_validate" not in sys.modules
