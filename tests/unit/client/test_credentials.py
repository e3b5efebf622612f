import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from kcr.client.credentials import Credential, PluginCredentials, PluginSpec, TokenFile
from kcr.errors import TransportError
from tests.kit.clocks import FixedClock


def plugin(code: str, **fields: object) -> PluginSpec:
    return PluginSpec(command=sys.executable, args=("-c", code), **fields)  # type: ignore[arg-type]  # by name


def answering(**status: object) -> str:
    return f"print({json.dumps(json.dumps({'kind': 'ExecCredential', 'status': status}))})"


def test_name_and_password_are_encoded() -> None:
    assert Credential.basic("a", "b").authorization == "Basic YTpi"


@pytest.mark.kcr_virtual
async def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    # python-stack §6; the newline at its end is no part of the token.
    path = tmp_path / "token"
    path.write_text("one\n")
    tokens = TokenFile(str(path))
    assert (await tokens.current()).authorization == "Bearer one"
    path.write_text("two\n")
    await asyncio.sleep(59)
    assert (await tokens.current()).authorization == "Bearer one"
    await asyncio.sleep(1)
    assert (await tokens.current()).authorization == "Bearer two"


@pytest.mark.kcr_virtual
async def test_token_file_that_vanishes_leaves_its_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(str(path))
    await tokens.current()
    path.unlink()
    await asyncio.sleep(61)
    assert (await tokens.current()).authorization == "Bearer one"


@pytest.mark.kcr_virtual
async def test_token_file_that_never_was_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"token file .*nothing"):
        await TokenFile(str(tmp_path / "nothing")).current()


@pytest.mark.kcr_virtual
async def test_refused_token_is_replaced_only_by_another(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    tokens = TokenFile(str(path))
    old = await tokens.current()
    assert not tokens.invalidate(old)
    path.write_text("two")
    assert tokens.invalidate(old)
    assert (await tokens.current()).authorization == "Bearer two"


@pytest.mark.asyncio
async def test_plugin_runs_once_for_all_who_wait(tmp_path: Path) -> None:
    # ST-31: single-flight.
    log = tmp_path / "runs"
    code = f"open({str(log)!r}, 'a').write('x'); {answering(token='t')}"
    credentials = PluginCredentials(plugin(code))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(credentials.current()) for _ in range(3)]
    assert {task.result().authorization for task in tasks} == {"Bearer t"}
    assert log.read_text() == "x"


@pytest.mark.asyncio
async def test_plugin_runs_again_before_its_token_expires(tmp_path: Path) -> None:
    # python-stack §6: 10 s before.
    log, clock = tmp_path / "runs", FixedClock()
    expires = (clock.now() + timedelta(seconds=60)).isoformat()
    code = f"open({str(log)!r}, 'a').write('x'); {answering(token='t', expirationTimestamp=expires)}"
    credentials = PluginCredentials(plugin(code), clock=clock)
    await credentials.current()
    clock.later(49)
    await credentials.current()
    assert log.read_text() == "x"
    clock.later(1)
    await credentials.current()
    assert log.read_text() == "xx"


@pytest.mark.asyncio
async def test_refused_plugin_token_is_asked_for_again(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    credentials = PluginCredentials(plugin(f"open({str(log)!r}, 'a').write('x'); {answering(token='t')}"))
    assert credentials.invalidate(await credentials.current())
    await credentials.current()
    assert log.read_text() == "xx"


@pytest.mark.asyncio
async def test_plugin_hears_of_the_cluster_and_its_variables() -> None:
    code = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "token = info['apiVersion'] + ' ' + info['spec']['cluster']['server'] + ' ' + os.environ['EXTRA'];"
        "print(json.dumps({'status': {'token': token}}))"
    )
    spec = plugin(code, api_version="v1", cluster={"server": "https://x"}, env={"EXTRA": "e"})
    assert (await PluginCredentials(spec).current()).authorization == "Bearer v1 https://x e"


@pytest.mark.asyncio
async def test_plugin_that_writes_much_to_stderr_is_read() -> None:
    # python-stack §6.
    code = f"import sys; sys.stderr.write('x' * 400_000); {answering(token='t')}"
    assert (await PluginCredentials(plugin(code)).current()).authorization == "Bearer t"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("spec", "message", "call"),
    [
        pytest.param(
            plugin("import sys; print('log in first', file=sys.stderr); sys.exit(3)"), "exit code 3: log in first",
            (3, "plugin_execution_error"), id="fails",
        ),
        pytest.param(plugin("print('hello')"), "not an ExecCredential", (0, "no_error"), id="no-json"),
        pytest.param(
            plugin(r"""import sys; sys.stdout.buffer.write(b'{"status":{"token":"\xff"}}')"""),
            "not an ExecCredential", (0, "no_error"), id="no-utf-8",
        ),
        pytest.param(plugin(answering()), "neither a token nor a certificate", (0, "no_error"), id="empty"),
        pytest.param(
            PluginSpec(command="/no/such/plugin", hint="get it\n at x"), "No such file or directory; get it at x",
            (1, "plugin_not_found_error"), id="missing",
        ),
    ],
)  # fmt: skip
async def test_plugin_that_gives_nothing_says_why(spec: PluginSpec, message: str, call: tuple[int, str]) -> None:
    # What is counted is the call. Source: client-go/plugin/pkg/client/auth/exec/metrics.go, incrementCallsMetric.
    credentials = PluginCredentials(spec)
    with pytest.raises(TransportError, match=message):
        await credentials.current()
    assert credentials.calls == {call: 1}
