import pytest

from kcr.informer.handlers import Filtered, Handler
from tests.unit.informer.pods import Pod, Told, pod


class OnlyDeletes(Handler[Pod]):
    def __init__(self) -> None:
        self.gone: list[str] = []

    def on_delete(self, obj: Pod) -> None:
        self.gone.append(obj.metadata.name)


# RF-30
def test_vanished_object_is_a_deleted_one_unless_told_apart() -> None:
    handler = OnlyDeletes()
    handler.on_vanish(pod("a", 1))
    assert handler.gone == ["a"]


# IN-11
@pytest.mark.parametrize(
    ("old", "new", "heard"),
    [
        pytest.param("web", "web", ["update a 1-2"], id="passes-still"),
        pytest.param("db", "web", ["add a 2"], id="begins-to-pass"),
        pytest.param("web", "db", ["delete a 1"], id="ceases-to-pass"),
        pytest.param("db", "db", [], id="never-passes"),
    ],
)
def test_filter_turns_a_change_into_what_its_handler_sees(old: str, new: str, heard: list[str]) -> None:
    told = Told()
    filtered = Filtered(told, lambda found: found.metadata.labels["app"] == "web")
    filtered.on_update(pod("a", 1, labels={"app": old}), pod("a", 2, labels={"app": new}))
    assert told.heard == heard


# IN-11
def test_filter_passes_on_what_comes_and_goes() -> None:
    told = Told()
    filtered = Filtered(told, lambda found: found.metadata.name != "hidden")
    for name in ("a", "hidden"):
        filtered.on_add(pod(name, 1), True)
        filtered.on_delete(pod(name, 2))
        filtered.on_vanish(pod(name, 3))
    assert told.heard == ["add a 1 initial", "delete a 2", "vanish a 3"]
