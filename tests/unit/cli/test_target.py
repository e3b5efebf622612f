"""How a command line names objects."""

import re

import click
import pytest

from kcr.api.batch import CronJob, Job
from kcr.cli.target import ObjectName, UnresolvedName, parse_object, parse_one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job/pi", ObjectName(Job, "pi")),
        ("Jobs.batch/pi-1.2", ObjectName(Job, "pi-1.2")),
        ("cj/hello", ObjectName(CronJob, "hello")),
        ("websites.example.dev/shop", UnresolvedName("websites.example.dev", "shop")),
        ("clusterrole/system:node", UnresolvedName("clusterrole", "system:node")),
    ],
)
def test_names_are_read_as_kubectl_reads_them(text: str, expected: ObjectName | UnresolvedName) -> None:
    assert parse_object(text) == expected


@pytest.mark.parametrize("name", ["..", "a?b=c", "-a", "A", "a,b", "a..b", "%2e"])
def test_name_that_no_object_has_is_refused(name: str) -> None:
    with pytest.raises(click.UsageError, match="is not a name of an object"):
        parse_object(f"job/{name}")


@pytest.mark.parametrize("name", ["..", "a?b=c", "a,b", "%2e", "a b"])
def test_name_that_would_change_a_path_is_refused(name: str) -> None:
    with pytest.raises(click.UsageError, match="is not a name of an object"):
        parse_object(f"clusterrole/{name}")


@pytest.mark.parametrize("text", ["pi", "/pi", "job/", "job/a/b"])
def test_text_that_names_no_object_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="names no object: write KIND/NAME, such as job/pi"):
        parse_object(text)


@pytest.mark.parametrize("texts", [("job/pi",), ("job", "pi"), ("jobs.batch", "pi")])
def test_kind_and_name_are_one_word_or_two(texts: tuple[str, ...]) -> None:
    assert parse_one(texts) == ObjectName(Job, "pi")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        pytest.param(("job", "pi", "e"), "'job pi e' names 2 objects: name one", id="two-names"),
        pytest.param(("job/pi", "job/e"), "'job/pi job/e' names 2 objects: name one", id="two-words"),
        pytest.param(("job/pi", "e"), "'job/pi e' names 2 objects: name one", id="word-behind-a-name"),
        pytest.param(("job", "p/i"), "'job p/i' names 2 objects: name one", id="slash-in-a-name"),
        pytest.param(("job",), "'job' names no object: write KIND/NAME", id="kind-alone"),
    ],
)
def test_one_object_is_named(texts: tuple[str, ...], words: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(words)):
        parse_one(texts)
