"""Functions between versions of a kind: what is registered, which path is taken, what a function may change."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.serving.webhooks.conversion import ConversionError, Conversions


class Spec(kcr.Object):
    path: tuple[str, ...] = ()


class Base(kcr.Resource):
    spec: Spec = Spec()


Version = type[Base]


def versions(*names: str, kind: str = "Website", group: str = "example.dev") -> list[Any]:
    """Return new classes of one kind, so that each test has registrations of its own."""

    def made(name: str) -> Any:
        class Made(Base, kind=kind, api_version=f"{group}/{name}", plural="websites"):
            pass

        Made.__name__ = name.upper()
        return Made

    return [made(name) for name in names]


def convert(source: Any, target: Any) -> Callable[[Any], Any]:
    """Register a function that records its step in the spec."""

    @kcr.converts(source, target)
    def step(old: Base) -> Base:
        return target(metadata=old.metadata, spec=Spec(path=(*old.spec.path, target.resource.version)))  # type: ignore[no-any-return]  # a class made above

    return step


def both_ways(one: Any, other: Any) -> None:
    convert(one, other)
    convert(other, one)


META = kcr.ObjectMeta(name="a", namespace="default", uid="1", finalizers=("example.dev/a",))


def test_spokes_are_converted_through_the_hub() -> None:
    alpha, beta, hub = versions("v1alpha1", "v1beta1", "v1")
    both_ways(alpha, hub)
    both_ways(beta, hub)
    conversions = Conversions.of(beta)
    assert conversions is not None
    assert set(conversions.versions) == {alpha, beta, hub}
    assert conversions.convert(alpha(metadata=META), beta) == beta(metadata=META, spec=Spec(path=("v1", "v1beta1")))
    assert conversions.convert(beta(metadata=META), hub).spec.path == ("v1",)
    assert conversions.convert(hub(metadata=META), hub).spec.path == ()


def test_direct_function_wins_over_the_hub() -> None:
    alpha, beta, hub = versions("v1alpha1", "v1beta1", "v1")
    for one, other in ((alpha, hub), (beta, hub), (alpha, beta)):
        both_ways(one, other)
    conversions = Conversions.of(hub)
    assert conversions is not None
    assert conversions.convert(alpha(), beta).spec.path == ("v1beta1",)


def test_class_without_functions_has_no_conversions() -> None:
    (only,) = versions("v1")
    assert Conversions.of(only) is None


def test_missing_direction_is_an_error_with_its_remedy() -> None:
    beta, hub = versions("v1beta1", "v1")
    convert(beta, hub)
    with pytest.raises(TypeError) as error:
        Conversions.of(hub)
    assert str(error.value) == (
        "V1 is not converted to V1BETA1: register @kcr.converts(V1, V1BETA1), or convert both to and from a third "
        "version, the hub"
    )


def test_version_that_is_declared_must_be_converted() -> None:
    alpha, beta, hub = versions("v1alpha1", "v1beta1", "v1")
    both_ways(beta, hub)
    with pytest.raises(TypeError, match=r"V1 is not converted to V1ALPHA1: register @kcr\.converts\(V1, V1ALPHA1\)"):
        Conversions.of(hub, beta, alpha)


def test_two_ways_of_two_steps_are_ambiguous() -> None:
    alpha, beta, gamma, hub = versions("v1alpha1", "v1beta1", "v1beta2", "v1")
    for one, other in ((alpha, beta), (alpha, gamma), (beta, hub), (gamma, hub)):
        both_ways(one, other)
    with pytest.raises(TypeError, match="V1 is converted to V1ALPHA1 through V1BETA1 or V1BETA2: register"):
        Conversions.of(hub, alpha)


def test_two_classes_of_one_version_are_ambiguous() -> None:
    beta, hub, twin = versions("v1beta1", "v1", "v1")
    both_ways(beta, hub)
    both_ways(beta, twin)
    with pytest.raises(TypeError, match="V1 and V1 are both v1: convert one of them only"):
        Conversions.of(beta)


def test_one_direction_has_one_function() -> None:
    beta, hub = versions("v1beta1", "v1")
    convert(beta, hub)
    with pytest.raises(TypeError, match="step: step converts V1BETA1 to V1 already"):
        convert(beta, hub)


def test_classes_must_be_two_versions_of_a_kind() -> None:
    (website,), (shop,), (twin,) = versions("v1"), versions("v1beta1", kind="Shop"), versions("v1")
    with pytest.raises(TypeError, match="V1 and V1BETA1 are not versions of one kind: give both the same group"):
        kcr.converts(website, shop)
    with pytest.raises(TypeError, match="V1 and V1 are both v1: name two versions"):
        kcr.converts(website, twin)
    with pytest.raises(TypeError, match="Base: it is not a kind: give the class api_version= and plural="):
        kcr.converts(Base, website)


def test_coroutine_is_refused() -> None:
    beta, hub = versions("v1beta1", "v1")

    async def asks(old: Base) -> Base:
        return old

    with pytest.raises(TypeError, match="function is the function asks: write `def` instead of `async def`"):
        kcr.converts(beta, hub)(asks)


def failing(change: Callable[[Any, Any], Any]) -> str:
    beta, hub = versions("v1beta1", "v1")
    convert(hub, beta)
    kcr.converts(beta, hub)(lambda old: change(hub, old))
    conversions = Conversions.of(hub)
    assert conversions is not None
    with pytest.raises(ConversionError) as error:
        conversions.convert(beta(metadata=META), hub)
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda hub, old: hub(), "it changed metadata (name, namespace, uid, fin", id="no-metadata"),
        pytest.param(
            lambda hub, old: hub(metadata=replace(old.metadata, finalizers=())), "metadata (finalizers)",
            id="finalizers",
        ),
        pytest.param(lambda hub, old: None, "it returned NoneType instead of an object", id="nothing"),
        pytest.param(lambda hub, old: old, "converted to V1BETA1, not to V1", id="other-class"),
        pytest.param(lambda hub, old: old.spec.host, "AttributeError: 'Spec' object has no attribute", id="exception"),
    ],
)  # fmt: skip
def test_wrong_result_names_the_object(change: Callable[[Any, Any], Any], expected: str) -> None:
    message = failing(change)
    assert message.startswith("v1beta1 Website default/a")
    assert expected in message


def test_labels_and_annotations_may_change() -> None:
    beta, hub = versions("v1beta1", "v1")
    convert(hub, beta)
    kcr.converts(beta, hub)(lambda old: hub(metadata=replace(old.metadata, labels={"a": "1"}, annotations={"b": ""})))
    conversions = Conversions.of(hub)
    assert conversions is not None
    made = conversions.convert(beta(metadata=META), hub)
    assert made.metadata == replace(META, labels={"a": "1"}, annotations={"b": ""})
