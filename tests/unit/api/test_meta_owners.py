from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import ObjectMeta, OwnerReference, controller_reference, is_controlled_by


def job(uid: str) -> Job:
    return Job(metadata=ObjectMeta(namespace="default", name="pi", uid=uid))


def test_reference_names_the_owner_as_controller() -> None:
    assert controller_reference(job("1")) == OwnerReference(
        api_version="batch/v1", kind="Job", name="pi", uid="1", controller=True, block_owner_deletion=True
    )


def test_namesake_of_the_owner_controls_nothing() -> None:
    pod = Pod(metadata=ObjectMeta(owner_references=(controller_reference(job("1")),)))
    assert is_controlled_by(pod, job("1"))
    assert not is_controlled_by(pod, job("2"))
    assert not is_controlled_by(Pod(), job("1"))
