"""How a command line names objects."""

import click
import pytest

from kcr.api.batch import CronJob, Job
from kcr.cli.objects.target import ObjectName, parse_object


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job/pi", ObjectName(Job, "pi")),
        ("Jobs.batch/pi-1.2", ObjectName(Job, "pi-1.2")),
        ("cj/hello", ObjectName(CronJob, "hello")),
    ],
)
def test_names_are_read_as_kubectl_reads_them(text: str, expected: ObjectName) -> None:
    assert parse_object(text) == expected


@pytest.mark.parametrize("name", ["..", "a?b=c", "-a", "A", "a,b", "a..b", "%2e"])
def test_name_that_no_object_has_is_refused(name: str) -> None:
    with pytest.raises(click.BadParameter, match="is no name of an object"):
        parse_object(f"job/{name}")


@pytest.mark.parametrize("text", ["pi", "pod/pi", "job/", "job/a/b"])
def test_text_that_names_neither_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="names no Job or CronJob"):
        parse_object(text)
