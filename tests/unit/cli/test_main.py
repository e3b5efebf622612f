"""Errors of the command line: one line, and an exit code."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import click
import pytest
import yaml

from kcr.app.plugins import variables_of_options
from kcr.cli.main import cli, exit_code_of
from tests.kit.command_lines import assert_refused

CREATE = ("kubeconfig", "create")


pytestmark = pytest.mark.usefixtures("logs_of_commands")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["walk"], "No such command 'walk'", id="unknown-command"),
        pytest.param(["run", "--fast"], "No such option", id="unknown-option"),
        pytest.param(["run", "--workers", "0"], "'0' is not a whole number of at least 1", id="value-out-of-range"),
        pytest.param(["run", "--workers", "x"], "'x' is not a whole number of at least 1", id="value-of-another-type"),
        pytest.param(
            ["run", "--controllers", "jop"], "no controller is named 'jop': known are", id="unknown-controller"
        ),
        pytest.param(
            ["run", "--controllers", ","], "Invalid value for --controllers: ',' names none", id="no-controller"
        ),
        pytest.param(["run", "--controllers", "-jop"], "kcr: -jop: no controller is named 'jop'", id="none-left-out"),
        pytest.param(["run", "--controllers=-job"], "no controllers are left to run", id="all-left-out"),
        pytest.param(["check", "--no-controllers"], "no controllers are left to run: name some", id="none-to-check"),
        pytest.param(["rbac", "generate", "--controllers=-job"], "no controllers are left", id="none-for-a-role"),
        pytest.param(
            ["dev", "--no-controllers", "--controllers", "ttl"],
            "--controllers names 'ttl', and --no-controllers",
            id="named-and-left-out",
        ),
        pytest.param(
            ["run", "--metrics-bind-address", "8080"], "'8080' is not an address to listen on", id="no-address"
        ),
        pytest.param(["dev", "--wait"], "--wait needs a Job", id="nothing-to-wait-for"),
        pytest.param([*CREATE], "name either --service-account or --user", id="for-no-user"),
        pytest.param([*CREATE, "--user", "a", "--service-account", "b"], "name either", id="for-two"),
        pytest.param([*CREATE, "--service-account", "b", "--group", "c"], "--group is for --user", id="group"),
        pytest.param([*CREATE, "--service-account", "a/"], "'a/' is neither NAME nor", id="account"),
        pytest.param([*CREATE, "--user", "a", "--duration", "1 day"], "'1 day' is not a duration", id="duration"),
        pytest.param(["wait", "pod/x"], "kcr: 'pod/x' names no Job: write job/NAME: see", id="pod-to-wait-for"),
        pytest.param(["wait", "cronjob/x"], "'cronjob/x' names no Job: write job/NAME: see", id="cronjob-to-wait-for"),
        pytest.param(["wait", "pi"], "kcr: 'pi' names no Job: write job/pi: see", id="name-alone"),
        pytest.param(["wait", "job"], "kcr: name Jobs, as in job/NAME, or choose", id="kind-alone"),
        pytest.param(["logs", "job", "a", "b"], "kcr: 'job a b' names 2 objects: name one: see", id="two-for-one"),
        pytest.param(
            ["wait", "job/x", "--for", "done"], "'done' is not an end of a Job: write complete or failed", id="end"
        ),
        pytest.param(["jbos"], "kcr: No such command 'jbos'. Did you mean 'jobs'?: see 'kcr --help'", id="slip"),
        pytest.param(["explain", "shop"], "write KIND/NAME, such as job/shop: see", id="name-alone-to-explain"),
        pytest.param(["wait", "job/"], "kcr: 'job/' names no Job: write job/NAME: see", id="job-without-a-name"),
        pytest.param(["wait", "job/x", "--timeout", "soon"], "write it as 15s or 1m30s", id="timeout-in-words"),
        pytest.param(["logs", "job/x", "-A"], "by name in all namespaces: name its namespace with -n", id="anywhere"),
        pytest.param(["explain", "pi"], "kcr: 'pi' names no object: write KIND/NAME, such as job/pi", id="no-kind"),
        pytest.param(["explain", "job/x", "--debug-address", "x"], "write HOST:PORT, such as", id="no-debug-address"),
        pytest.param(["logs", "job/x", "--since", "0s"], "0s is not above zero", id="no-since"),
        # These are not values of a struct, and click words them: a new wording of its fails here.
        pytest.param(
            ["logs", "job/x", "--tail", "x"], "Invalid value for --tail: 'x' is not a whole number: see", id="tail"
        ),
        pytest.param(
            ["logs", "job/x", "--tail", "-1"], "for --tail: -1 is not in the range x>=0: see", id="tail-below"
        ),
        pytest.param(["debug", "profile", "x"], "for 'SECONDS': 'x' is not a whole number: see", id="no-seconds"),
        pytest.param(["completion", "tcsh"], "'tcsh' is not one of", id="unknown-shell"),
        pytest.param([*CREATE, "--user", "a", "--duration", "0s"], "0s is not above zero", id="no-time"),
    ],
)
def test_wrong_usage_is_one_line_and_two(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(arguments, 2, line, capsys)


@pytest.mark.parametrize("variable", ["KCR_WORKERS", "KCR_KUBE_API_BURST"])
def test_wrong_variable_is_named(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "none")
    assert exit_code_of(["run"]) == 2
    assert f"Invalid value for {variable}: 'none' is not a whole number of at least 1" in capsys.readouterr().err


def test_variable_that_is_neither_true_nor_false_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KCR_FOLLOW", "perhaps")
    assert exit_code_of(["logs", "job/x"]) == 2
    line = "kcr: Invalid value for KCR_FOLLOW: 'perhaps' is neither true nor false: see 'kcr logs --help'\n"
    assert capsys.readouterr().err == line


def test_missing_kubeconfig_is_one_line_and_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "--kubeconfig", "/nowhere/config"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("kcr: ")
    assert "/nowhere/config" in shown
    assert shown.count("\n") == 1


def test_ready_file_of_a_killed_process_goes_first_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    # There is no server, not even a kubeconfig: the file is removed before they are read.
    assert exit_code_of(["run", "--ready-file", str(ready), "--kubeconfig", "/nowhere/config"]) == 1
    assert list(tmp_path.iterdir()) == []


def test_ready_file_that_cannot_be_is_one_line_and_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "nowhere" / "ready"
    assert exit_code_of(["run", "--ready-file", str(ready)]) == 1
    shown = capsys.readouterr().err
    assert shown == f"kcr: ready file {ready}: No such file or directory: name a file that can be written\n"


def test_file_without_object_is_one_line_and_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["dev", "-f", "/nowhere/job.yaml"]) == 1
    assert capsys.readouterr().err.startswith("kcr: /nowhere/job.yaml: No such file or directory: ")


def test_version_is_one_object_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["version", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kcr"] == version("kcr")
    assert {"Python", "platform", "aiohttp", "msgspec"} <= found.keys()


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_is_a_script_of_its_shell(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["completion", shell]) == 0
    assert f"_KCR_COMPLETE={shell}_complete" in capfd.readouterr().out


def test_help_without_a_command_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of([]) == 0
    out = capsys.readouterr().out
    groups = ("Run:", "Develop:", "Look:", "Repair:", "Generate:")
    assert [line for line in out.splitlines() if line in groups] == [*groups]
    # One screen, and each command on its own line.
    assert len(out.splitlines()) <= 48
    assert "Others:" not in out
    assert "  completion  Print a shell's completion.\n" in out


@pytest.mark.parametrize("group", ["crd", "debug", "kubeconfig", "policy", "rbac", "snapshot", "types", "webhooks"])
def test_summaries_of_commands_are_whole_sentences(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of([group, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_full_disk_is_one_line_and_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  # its end fails as well
    monkeypatch.setattr(sys, "stdout", full)
    assert exit_code_of(["version"]) == 1
    assert capsys.readouterr().err == "kcr: cannot write: No space left on device: free some space\n"
    with suppress(OSError):
        full.close()


@pytest.mark.parametrize(
    ("variable", "text", "fault"),
    [
        pytest.param("KCR_KUBE_API_BURST", "many", "'many' is not a whole number of at least 1", id="whole-number"),
        pytest.param("KCR_KUBE_API_QPS", "many", "'many' is not a number of at least 0", id="number"),
        pytest.param("KCR_TAKE_OVER", "many", "'many' is not true or false", id="truth"),
    ],
)
def test_value_of_another_type_is_said_plainly(
    variable: str, text: str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, text)
    assert exit_code_of(["run"]) == 2
    assert capsys.readouterr().err == f"kcr: Invalid value for {variable}: {fault}: see 'kcr run --help'\n"


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        pytest.param("KCR_LEADER_ELEKT", "is it KCR_LEADER_ELECT?", id="of-this-command"),
        pytest.param("KCR_SYNC_JOB_BATCH_PERIODS", "is it KCR_SYNC_JOB_BATCH_PERIOD?", id="of-a-plugin"),
        pytest.param("KCR_CRONJOB_TIMEZONE", "is it KCR_CRONJOB_TIME_ZONE?", id="of-a-plugin-that-does-not-run"),
        pytest.param("KCR_DEV_DATADIR", "is it KCR_DEV_DATA_DIR?", id="of-another-command"),
        pytest.param("KCR_ZZZ", "see --help for those that are read", id="like-none"),
    ],
)
def test_variable_that_no_option_has_is_warned_of(
    variable: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "x")
    assert exit_code_of(["check", "--kubeconfig", "/there/is/none"]) == 1
    warning, _ = capsys.readouterr().err.splitlines()
    assert warning == f"Warning: no option has the variable {variable}: {hint}"


@pytest.mark.parametrize(
    "variable",
    [
        pytest.param("KCR_DEV_DATA_DIR", id="of-another-command"),
        pytest.param("KCR_CRONJOB_TIME_ZONE", id="of-a-plugin-that-does-not-run"),
        pytest.param("KCR_METRICS_SERVICE_HOST", id="of-a-service"),
        pytest.param("KCR_METRICS_PORT_8080_TCP_ADDR", id="of-a-port-of-a-service"),
        pytest.param("KCR_MOUNT_DATA", id="in-a-pod-of-the-development-cluster"),
    ],
)
def test_variable_for_something_else_is_no_mistake(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "x")
    assert exit_code_of(["check", "--kubeconfig", "/there/is/none"]) == 1
    assert "Warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("check", id="check"),
        pytest.param("run", id="run"),
        pytest.param("wait job/a", id="wait"),
        pytest.param("logs job/a", id="logs"),
        pytest.param("explain job/a", id="explain"),
        pytest.param("rerun job/a", id="rerun"),
        pytest.param("run-now cronjob/a", id="run-now"),
        pytest.param("shards", id="shards"),
        pytest.param("reconcile job/a", id="reconcile"),
        pytest.param("kubeconfig create --user alice", id="kubeconfig"),
    ],
)
def test_program_of_a_kubeconfig_does_not_run_where_it_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": {"command": "touch", "args": [str(tmp_path / "trace")]}}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KCR_EXEC_PLUGINS", "never")
    assert exit_code_of([*command.split(), "--kubeconfig", str(tmp_path / "config")]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"kcr: kubeconfig {tmp_path}/config, context a, user a: "
        f"the credential plugin {shutil.which('touch')} {tmp_path}/trace may not run: "
        "--exec-plugins is never: use another kubeconfig, or --exec-plugins=always"
    )
    assert not (tmp_path / "trace").exists()


def test_arguments_have_no_variables() -> None:
    logs = cli.get_command(click.Context(cli), "logs")
    assert logs is not None
    found = {*variables_of_options(logs, None)}
    assert ("KCR_TAIL" in found, "KCR_JOB" in found, "KCR_ALL_NAMESPACES" in found) == (True, False, False)


def test_variable_that_no_option_has_imports_no_other_command() -> None:
    code = (
        "import sys; from kcr.cli.main import exit_code_of; exit_code_of(sys.argv[1:]); "
        "print({'kcr_devcluster.dev.command', 'kcr.controllers.cronjob.controller'} & set(sys.modules))"
    )
    environ = {**os.environ, "KCR_CRONJOB_TIMEZONE": "x", "KUBECONFIG": "/there/is/none"}
    arguments = [sys.executable, "-c", code, "run", "--controllers", "ttl"]
    done = subprocess.run(arguments, env=environ, capture_output=True, text=True, check=True)
    assert "KCR_CRONJOB_TIMEZONE" in done.stderr
    assert done.stdout == "set()\n"


# The next file would take the place of a closed stream, and the talk would be in it.
CLOSED = """
import os, sys
from kcr.app.logs import open_standard_streams
open_standard_streams()
with open(sys.argv[1], "w") as file:
    print("talk", file=sys.stderr, flush=True)
    os.write(2, b"talk")
    print("data")
"""


@pytest.mark.parametrize("closed", ["2>&-", "2>&- <&-"])
def test_closed_stderr_leaves_files_and_data_alone(tmp_path: Path, closed: str) -> None:
    command = f'exec "{sys.executable}" -c "$1" "$2" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, "sh", CLOSED, str(tmp_path / "file")], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout == b"data\n"
    assert (tmp_path / "file").read_bytes() == b""
