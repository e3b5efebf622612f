import pytest

from kcr.embedded.core.shapes import SHAPES
from kcr.embedded.protobuf_messages import MESSAGES, ROOTS

SCALARS = {"bool", "bytes", "ignored", "int", "quantity", "raw", "string", "time"}


def test_every_type_in_the_table_is_known() -> None:
    named = {kind.removeprefix("[]").removeprefix("map[string]") for m in MESSAGES.values() for _, kind in m.values()}
    assert named <= SCALARS | set(MESSAGES)
    assert set(ROOTS) <= set(MESSAGES)


@pytest.mark.parametrize("name", sorted(set(MESSAGES) & set(SHAPES)))
def test_members_are_those_of_the_shape(name: str) -> None:
    assert {member for member, _ in MESSAGES[name].values()} <= set(SHAPES[name].members)
