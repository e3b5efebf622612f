import pytest

from kcr_devcluster.apiserver.http.openapi.prose import Prose, installed_prose

JOB_SPEC = "io.k8s.api.batch.v1.JobSpec"


def test_installed_document_describes_types_and_fields() -> None:
    prose = installed_prose()
    assert prose.of_type("io.k8s.api.batch.v1.Job") == "Job represents the configuration of a single job."
    assert prose.of_field(JOB_SPEC, "suspend").startswith("suspend specifies whether the Job controller should create")
    assert (prose.of_type("io.none"), prose.of_field(JOB_SPEC, "none")) == ("", "")


@pytest.mark.parametrize("field", ["selector", "manualSelector"])
def test_fields_that_are_misused_are_described_without_it(field: str) -> None:  # api-server §4.3
    assert "not unique" in Prose({}).of_field(JOB_SPEC, field)
