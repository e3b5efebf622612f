"""What an archive for a report says of itself, and of the errors of a process."""

import io
import tarfile

import msgspec
import pytest

from kcr.cli.debug.commands import ArchiveFile, errors_of, manifest, packed, read_state
from kcr.cli.debug.port import parse_address
from kcr.errors import ConfigError
from kcr.serving.debug.state import DebugState, InformerState, LoopState, ProcessState
from tests.kit.builders import NOW

FILES = [
    ArchiveFile("state.json", "the state", "{}\n"),
    ArchiveFile("metrics.txt", "its metrics", None, "they are somewhere else"),
]


def test_manifest_says_what_is_there_and_what_was_not_to_be_had() -> None:
    lines = manifest(FILES, "http://127.0.0.1:8081", NOW).splitlines()
    assert lines[0] == f"kcr debug dump of http://127.0.0.1:8081 at {NOW:%Y-%m-%dT%H:%M:%SZ}"
    assert lines[2:4] == [
        "state.json     the state: 3 bytes",
        "metrics.txt    its metrics: not to be had: they are somewhere else",
    ]


def test_archive_has_the_files_that_were_to_be_had() -> None:
    body = packed(FILES, "all\n", "kcr-debug-1", NOW)
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert archive.getnames() == ["kcr-debug-1/MANIFEST", "kcr-debug-1/state.json"]
        assert {one.mode for one in archive} == {0o600}


def test_errors_are_those_of_readiness_and_informers_too() -> None:
    process = ProcessState(
        command="kcr run", version="1", python="3", pid=1, now=NOW, uptime_seconds=1, server="", memory_bytes=1,
        not_ready=("informer-pods: forbidden",),
    )  # fmt: skip
    informer = InformerState(
        kind="pods", namespaces=(), is_synced=False, objects=0, resource_version="", last_event_seconds_ago=None,
        counts={}, last_error="pods is forbidden",
    )  # fmt: skip
    loop = LoopState(lag_seconds=0, max_lag_seconds=0, blocked_at="", tasks=1)
    informers = (informer, msgspec.structs.replace(informer, last_error=""))
    state = DebugState(process=process, loop=loop, leadership=None, informers=informers, controllers=())
    assert list(errors_of(state)) == ["not ready: informer-pods: forbidden", "informer pods: pods is forbidden"]


def test_state_of_another_version_names_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"^the debug port http://127\.0\.0\.1:8081 cannot be read: .*same version"):
        read_state(parse_address(":8081"), b'{"process": {}}')
