import pytest

from kcr.controllers import require_take_over
from kcr.errors import ConfigError
from kcr.feature_gates import read_gates


def test_gates_are_off_unless_turned_on() -> None:
    assert read_gates("") == frozenset()
    assert read_gates("GenericWorkload=false") == frozenset()
    assert read_gates(" GenericWorkload=true, WorkloadWithJob=True,") == {"GenericWorkload", "WorkloadWithJob"}
    assert read_gates("GenericWorkload=true,GenericWorkload=false") == frozenset()
    assert read_gates("ShardedListAndWatch=true") == {"ShardedListAndWatch"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "Gang=true", "no feature gate 'Gang'; known are GenericWorkload, WorkloadWithJob, Sharded", id="unknown"
        ),
        pytest.param("GenericWorkload", "say GenericWorkload=true or GenericWorkload=false", id="no-value"),
        pytest.param("GenericWorkload=on", "say GenericWorkload=true or GenericWorkload=false", id="no-truth"),
        pytest.param("WorkloadWithJob=true", "WorkloadWithJob needs GenericWorkload=true as well", id="alone"),
    ],
)
def test_wrong_gates_are_told_with_the_remedy(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_gates(text)


def test_controller_that_must_be_alone_is_refused_beside_another() -> None:
    with pytest.raises(ConfigError, match=r"'ttl' cannot share a cluster .* --controllers=\*,-own, .* --take-over"):
        require_take_over("ttl", instead_of="own", take_over=False)
    require_take_over("ttl", instead_of="own", take_over=True)
