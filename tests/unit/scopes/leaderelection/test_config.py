from typing import Any

import pytest

from kcr.errors import ConfigError
from kcr.scopes.leaderelection import LeaderElectionConfig


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"name": ""}, "the Lease needs a name", id="no-name"),
        pytest.param(
            {"name": "My Lease"}, "Lease: 'My Lease' is not a name of an object: names have lower-case", id="name"
        ),
        pytest.param({"name": "a" * 254}, "Lease: 'a+' is not a name of an object: .*at most 253", id="long-name"),
        pytest.param({"namespace": "a_b"}, "namespace of the Lease: 'a_b' is not a name of an object", id="namespace"),
        pytest.param({"identity": ""}, "the identity is empty", id="no-identity"),
        pytest.param({"retry_period": 0.0}, "must be more than 0", id="no-retry"),
        pytest.param({"lease_duration": 0.5, "renew_deadline": 0.4, "retry_period": 0.1}, "at least 1 s", id="short"),
        pytest.param({"lease_duration": 10.0}, "two replicas may lead at once", id="deadline-beyond-lease"),
        pytest.param({"retry_period": 9.0}, "1.2 times the retry period of 9 s", id="deadline-within-retry"),
    ],
)
def test_refused_option_names_value_and_reason(options: dict[str, Any], words: str) -> None:  # CM-29
    with pytest.raises(ConfigError, match=words):
        LeaderElectionConfig(**{"name": "a", **options})


def test_identities_of_two_replicas_differ() -> None:  # CM-29
    assert LeaderElectionConfig(name="a").identity != LeaderElectionConfig(name="a").identity
