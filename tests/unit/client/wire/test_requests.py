from typing import Any

import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.client.wire.transport import object_path, target
from tests.kit.scripted_transport import Script


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ValueError, match=r"pods: .* is not a name of an object"):
        object_path(Pod, Key("default", name))


@pytest.mark.parametrize("key", ["a", "default/a", ("default", "a")])
def test_key_that_is_none_is_refused_with_the_remedy(key: Any) -> None:
    with pytest.raises(TypeError, match=r"pods: .* is not a kcr.Key: write kcr.Key\(namespace, name\)"):
        object_path(Pod, key)


@pytest.mark.kcr_virtual
async def test_deletion_without_a_name_does_not_delete_everything() -> None:
    script = Script()
    with pytest.raises(ValueError, match="is not a name"):
        await Client(script).delete(Pod, Key("default", ""))
    with pytest.raises(ValueError, match="is not a name"):
        await Client(script).get(Pod, Key("", ""))
    assert script.requests == []


def test_names_and_parameters_are_percent_encoded() -> None:
    assert object_path(Pod, Key("a-b", "c?d"), "log") == "/api/v1/namespaces/a-b/pods/c%3Fd/log"
    assert (
        target("/x", {"labelSelector": "a in (b)", "limit": 0, "none": ""}) == "/x?labelSelector=a+in+%28b%29&limit=0"
    )
