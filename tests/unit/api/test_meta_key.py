"""Keys as text, and those of member clusters."""

import copy
import pickle
import sys

import pytest

from kcr import Key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("default/pi", Key("default", "pi"), id="namespaced"),
        pytest.param("node-0", Key("", "node-0"), id="cluster"),
    ],
)
def test_key_is_read_as_it_is_written(text: str, key: Key) -> None:
    assert Key.parse(text) == key
    assert str(key) == text


@pytest.mark.parametrize("text", ["", "default/", "/pi", "a/b/c"])
def test_text_that_is_no_key_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="write namespace/name, or name for a kind without namespaces"):
        Key.parse(text)


def test_key_of_a_member_is_unequal_to_that_of_the_home_cluster() -> None:
    home = Key("default", "pi")
    east = home.in_cluster("east")
    assert (east.namespace, east.name, east.cluster) == ("default", "pi", "east")
    assert (home.cluster, home.local, east.local) == ("", home, home)
    assert len({home, east, home.in_cluster("west"), Key("default", "pi").in_cluster("east")}) == 3
    assert east.in_cluster("") == home
    assert east.in_cluster("west") == home.in_cluster("west")
    assert isinstance(east, Key)
    assert sorted([east, home]) == [home, east]


def test_key_of_the_home_cluster_stays_a_pair() -> None:
    namespace, name = Key("default", "pi")
    assert Key(namespace, name) == ("default", "pi")
    assert sys.getsizeof(Key(namespace, name)) == sys.getsizeof(("default", "pi"))


@pytest.mark.parametrize("key", [Key("default", "pi"), Key("", "node-0"), Key("", "system:node")])
def test_key_of_a_member_has_text_and_copies(key: Key) -> None:
    east = key.in_cluster("east")
    assert str(east) == f"cluster://east/{key}"
    assert Key.parse(str(east)) == east
    assert repr(east) == f"{key!r}.in_cluster('east')"
    assert copy.copy(east) == pickle.loads(pickle.dumps(east)) == east


@pytest.mark.parametrize("text", ["cluster://", "cluster://east", "cluster:///default/pi", "cluster://east/"])
def test_text_without_cluster_or_name_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        Key.parse(text)
