"""The index of served kinds."""

from kcr_devcluster.apiserver.kinds.served import version_priority


def test_versions_of_a_group_are_ordered_by_what_they_promise() -> None:
    names = ["v1alpha1", "v10", "foo", "v2beta1", "v1", "v2alpha2", "v2beta2", "v11beta1", "v2", "bar"]
    assert sorted(names, key=version_priority) == [
        "v10", "v2", "v1", "v11beta1", "v2beta2", "v2beta1", "v2alpha2", "v1alpha1", "bar", "foo",
    ]  # fmt: skip
