"""Arguments that are checked when they are handed over, by their annotations."""

from pathlib import Path
from traceback import extract_tb, format_exception
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

import kcr
from kcr.api.core import ConfigMap
from kcr.arguments import check_fields, checked, checked_on_failure, refuse
from kcr.stacks import trace_of


def test_value_out_of_bounds_is_a_value_error() -> None:
    class Options(msgspec.Struct, frozen=True):
        workers: Annotated[int, Meta(ge=1)] = 1

    check_fields("controller web", Options())
    with pytest.raises(ValueError, match="controller web: workers is 0: give it a whole number of at least 1"):
        check_fields("controller web", Options(workers=0))


@checked
def swapped(kind: type[kcr.Resource], key: kcr.Key, *names: str, **fields: Any) -> tuple[str, ...]:
    return names


def test_swapped_arguments_are_told_their_order() -> None:
    with pytest.raises(TypeError, match=r"swapped: kind is Key\(.*\): swap it with key: the order is kind, key"):
        swapped(kcr.Key("a", "b"), ConfigMap)  # type: ignore[arg-type]  # the mistake


def test_arguments_by_name_and_the_rest_are_checked_too() -> None:
    assert swapped(ConfigMap, kcr.Key("a", "b"), "c", other=3) == ("c",)
    with pytest.raises(TypeError, match="swapped: key is 'a/b': give it a kcr"):
        swapped(kind=ConfigMap, key="a/b")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="swapped: names is 3: give it a string"):
        swapped(ConfigMap, kcr.Key("a", "b"), 3)  # type: ignore[arg-type]  # the mistake


@pytest.mark.asyncio
async def test_call_that_fails_is_explained_by_its_arguments() -> None:
    @checked_on_failure
    async def name_of(obj: kcr.Resource) -> str:
        return obj.metadata.name

    assert await name_of(ConfigMap()) == ""
    with pytest.raises(TypeError, match="name_of: obj is the class ConfigMap: give it an object"):
        await name_of(ConfigMap)  # type: ignore[arg-type]  # the mistake


def test_failure_with_right_arguments_stays_what_it_is() -> None:
    @checked_on_failure
    def fail(text: str) -> None:
        raise KeyError(text)

    with pytest.raises(KeyError, match="red"):
        fail("red")


def test_trace_of_a_mistake_has_the_lines_of_its_author_alone() -> None:
    def of_the_author() -> None:
        swapped("Website", kcr.Key("a", "b"))  # type: ignore[arg-type]  # the mistake

    try:
        of_the_author()
    except TypeError as error:
        _, _, trace = trace_of(error)
    functions = []
    while trace is not None:
        functions.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert functions == ["test_trace_of_a_mistake_has_the_lines_of_its_author_alone", "of_the_author"]


@pytest.mark.asyncio
async def test_mistake_that_is_found_after_a_failure_shows_nothing_of_kcr() -> None:
    @checked_on_failure
    async def name_of(obj: kcr.Resource) -> str:
        return obj.metadata.name

    with pytest.raises(TypeError, match="name_of: obj is 'web': give it an object") as found:
        await name_of("web")  # type: ignore[arg-type]  # the mistake
    lines = format_exception(*trace_of(found.value))
    assert not [line for line in lines if "kcr/arguments.py" in line or "AttributeError" in line]


@pytest.mark.parametrize(
    ("folder", "functions"),
    [
        pytest.param(str(Path(kcr.__file__).parent), ["of_the_author"], id="of-kcr"),
        pytest.param("/home/author", ["worker", "of_the_author"], id="of-the-author"),
    ],
)
def test_trace_of_a_failure_begins_with_the_authors_line(folder: str, functions: list[str]) -> None:
    def of_the_author() -> None:
        raise ValueError("the disk is full")

    scope: dict[str, Any] = {}
    exec(compile("def worker(call):\n    call()", f"{folder}/worker.py", "exec"), scope)
    with pytest.raises(ValueError, match="the disk is full") as found:
        scope["worker"](of_the_author)
    assert found.value.__traceback__ is not None
    error = found.value.with_traceback(found.value.__traceback__.tb_next)
    assert [frame.name for frame in extract_tb(trace_of(error)[2])] == functions


def test_exceptions_without_a_line_of_the_author_keep_their_trace() -> None:
    error = ValueError("no mistake of an author")
    assert trace_of(error) == (ValueError, error, None)
    try:
        refuse("it returned nothing")
    except TypeError as mistake:
        mistake.__traceback__ = mistake.__traceback__ and mistake.__traceback__.tb_next
        assert trace_of(mistake) is None
