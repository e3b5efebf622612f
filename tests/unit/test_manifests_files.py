"""What `-f` names: files, folders, URLs, stdin."""

import functools
import http.server
import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcr.errors import ConfigError
from kcr_devcluster.manifests import read_texts


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_folder_is_its_manifests_by_name_and_no_deeper(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "c.yml", "notes.txt", "deep/d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = list(read_texts(str(tmp_path)))
    assert [text for _, text in found] == ["a.json", "b.yaml", "c.yml"]
    assert found[0][0] == str(tmp_path / "a.json")


def test_folder_without_manifests_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"no manifest in this folder: its \*\.json, \*\.yaml and \*\.yml are read"):
        list(read_texts(str(tmp_path)))


def test_url_is_fetched(tmp_path: Path, url: str) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job")
    assert list(read_texts(f"{url}/job.yaml")) == [(f"{url}/job.yaml", "kind: Job")]


def test_url_of_nothing_names_the_answer(url: str) -> None:
    with pytest.raises(ConfigError, match=r"/job\.yaml: the server answers 404 .*: correct the URL"):
        list(read_texts(f"{url}/job.yaml"))


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "nowhere.invalid", ":", "[::1"])
def test_unreachable_url_is_one_line(host: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = f"http://{host.format(port=unused.getsockname()[1])}/job.yaml"
        with pytest.raises(ConfigError) as raised:
            list(read_texts(where))
    assert str(raised.value).startswith(f"{where}: cannot be fetched: ")
    assert "\n" not in str(raised.value)
    assert "<" not in str(raised.value)


def test_bytes_that_are_no_text_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(ConfigError, match="stdin: no text in UTF-8"):
        list(read_texts("-"))
