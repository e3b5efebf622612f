"""Finding plugins and reading their options."""

import json
import re
import sys
import sysconfig
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import msgspec
import pytest

from kcr.api.core import Pod
from kcr.app.faults import remedy, unexpected
from kcr.app.plugins import (
    GROUP,
    Setup,
    attach,
    choose_plugins,
    find_explainers,
    find_plugins,
    read_options,
    unknown_variables,
)
from kcr.client import Client
from kcr.errors import ConfigError
from kcr.manager import Manager
from kcr.testing import FakeSource


class Options(msgspec.Struct, frozen=True):
    workers: int = 5
    take_over: bool = False
    sync_job_batch_period: float = 1.0
    backoff: timedelta = timedelta(seconds=10)
    tags: dict[str, str] = {}


class Picky(msgspec.Struct, frozen=True):
    zone: str = ""

    def __post_init__(self) -> None:
        if self.zone == "Mars":
            raise ValueError("unknown time zone Mars")


class Needy(msgspec.Struct, frozen=True):
    cluster_name: str


def point(name: str, value: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, GROUP)}


INSTALLED = {
    **point("job", "kcr.controllers.job.controller:setup"), **point("ttl", "kcr.controllers.job.ttl:setup"),
    **point("cronjob", "kcr.controllers.cronjob.controller:setup"), **point("shop", "coffee_shop.controller:setup"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "run", "dev", "rights"),
    [
        pytest.param("*", "job", "job,ttl,cronjob", "job", id="default"),
        pytest.param("mine:setup", "job,mine:setup", "job,ttl,cronjob,mine:setup", "mine:setup", id="own"),
        pytest.param("shop", "job,shop", "job,ttl,cronjob,shop", "shop", id="own-installed"),
        pytest.param(
            "mine:setup,shop", "job,mine:setup,shop", "job,ttl,cronjob,mine:setup,shop", "mine:setup,shop", id="two"
        ),
        pytest.param("ttl", "ttl", "ttl", "ttl", id="one-of-kcr"),
        # An own one may select a part of a kind, of which kcr's need all.
        pytest.param("mine:setup,ttl", "ttl,mine:setup", "ttl,mine:setup", "ttl,mine:setup", id="own-and-one-of-kcr"),
        pytest.param("*,mine:setup", "job,mine:setup", "job,ttl,cronjob,mine:setup", "job,mine:setup", id="star"),
        pytest.param("*,cronjob", "job,cronjob", "job,ttl,cronjob", "job,cronjob", id="star-and-one-of-kcr"),
        pytest.param("-job", "", "ttl,cronjob", "", id="one-left-out"),
        pytest.param("*,-job", "", "ttl,cronjob", "", id="star-without-one"),
        pytest.param("mine:setup,-job", "mine:setup", "ttl,cronjob,mine:setup", "mine:setup", id="own-without-one"),
        pytest.param("-job,-ttl,-cronjob", "", "", "", id="all-left-out"),
        pytest.param("-ttl", "job", "job,cronjob", "job", id="left-out-beside-the-default"),
        pytest.param("job,-ttl", "job", "job", "job", id="left-out-beside-a-name"),
        pytest.param("job,*,job", "job", "job,ttl,cronjob", "job", id="named-twice"),
    ],
)
def test_own_controllers_are_added_and_others_left_out_by_name(given: str, run: str, dev: str, rights: str) -> None:
    entries, default = tuple(given.split(",")), ("job", "ttl", "cronjob")
    assert ",".join(choose_plugins(entries, ("job",), installed=INSTALLED)) == run
    assert ",".join(choose_plugins(entries, default, installed=INSTALLED)) == dev
    assert ",".join(choose_plugins(entries, ("job",), adds_own=False, installed=INSTALLED)) == rights


@pytest.mark.parametrize(
    ("given", "chosen"),
    [("*", ""), ("mine:setup", "mine:setup"), ("shop,*", "shop"), ("-job,mine:setup", "mine:setup")],
)
def test_none_of_kcrs_own_are_left_where_that_is_wanted(given: str, chosen: str) -> None:
    entries = tuple(given.split(","))
    assert ",".join(choose_plugins(entries, ("job", "ttl"), none_of_kcr=True, installed=INSTALLED)) == chosen


@pytest.mark.parametrize(
    ("given", "none_of_kcr", "fault"),
    [
        pytest.param(
            "-jop", False, "-jop: no controller is named 'jop': known are cronjob, job, shop, ttl", id="unknown"
        ),
        pytest.param(
            "-mine:setup", False, "-mine:setup: no controller is named 'mine:setup': known", id="never-default"
        ),
        pytest.param("-", False, "-: no controller is named '': known", id="nameless"),
        pytest.param("job,-job", False, "--controllers names 'job', and -job leaves it out: remove one", id="both"),
        pytest.param("shop,-shop", False, "--controllers names 'shop', and -shop leaves it out", id="both-own"),
        pytest.param("job", True, "--controllers names 'job', and --no-controllers leaves it out: remove", id="none"),
    ],
)
def test_list_that_contradicts_itself_is_refused(given: str, none_of_kcr: bool, fault: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(fault)):
        choose_plugins(tuple(given.split(",")), ("job",), none_of_kcr=none_of_kcr, installed=INSTALLED)


def test_explainers_of_controllers_that_are_left_out_stay() -> None:
    assert find_explainers(("-job", "*"), print) == find_explainers((), print)


def test_defaults_hold_when_nothing_is_said() -> None:
    assert read_options(Options, {}, {"workers": None}) == Options()


def test_each_field_comes_from_its_variable() -> None:
    environ = {"KCR_WORKERS": "7", "KCR_TAKE_OVER": "true", "KCR_SYNC_JOB_BATCH_PERIOD": "0.5", "KCR_BACKOFF": "3"}
    assert read_options(Options, environ, {}) == Options(7, True, 0.5, timedelta(seconds=3))


def test_command_line_wins_over_the_environment() -> None:
    assert read_options(Options, {"KCR_WORKERS": "7"}, {"workers": 3}).workers == 3


def test_empty_variable_counts_as_none() -> None:
    assert read_options(Options, {"KCR_WORKERS": ""}, {}).workers == 5


def test_values_for_other_plugins_are_passed_over() -> None:
    assert read_options(Options, {"KCR_KUBECONFIG": "x"}, {"shards": 2}) == Options()


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        pytest.param("KCR_WORKERS", "many", "its value is not a whole number", id="word-for-a-number"),
        pytest.param("KCR_TAKE_OVER", "perhaps", "its value is not true or false", id="word-for-a-truth"),
        pytest.param("KCR_SYNC_JOB_BATCH_PERIOD", "1s", "its value is not a number", id="unit-in-a-number"),
        pytest.param("KCR_TAGS", "a", "its value does not fit: Expected object$", id="text-for-a-mapping"),
    ],
)
def test_bad_value_is_named_with_its_variable(variable: str, value: str, fault: str) -> None:
    with pytest.raises(click.UsageError, match=f"{variable}: {fault}"):
        read_options(Options, {variable: value}, {})


def test_missing_value_without_default_is_named() -> None:
    with pytest.raises(click.UsageError, match="KCR_CLUSTER_NAME is not set"):
        read_options(Needy, {}, {})


def test_refused_options_name_the_variables_read() -> None:
    with pytest.raises(click.UsageError, match=r"refuses its options: unknown time zone Mars: change KCR_ZONE$"):
        read_options(Picky, {"KCR_ZONE": "Mars", "KCR_OTHER": "x"}, {})
    with pytest.raises(click.UsageError, match=r"refuses its options: unknown time zone Mars$"):
        read_options(Picky, {}, {"zone": "Mars"})


EXPLAINING = """
import kcr
from kcr.api.core import Secret

async def explain_secret(client, secret, events, now):
    return kcr.Explanation(kcr.Code.WAITING, "waits")

@kcr.explains(Secret, explain_secret)
def setup(manager): ...
"""


def test_explainers_are_those_of_installed_and_named_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kcr_test_vault.py").write_text(EXPLAINING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    warnings: list[str] = []
    known = {**point("job", "kcr.controllers.job.controller:setup"), **point("broken", "no_such_package.x:setup")}
    found = find_explainers(("kcr_test_vault:setup",), warnings.append, known)
    assert [one.kind.resource.plural for one in found][-1] == "secrets"
    assert {"jobs", "pods", "deployments", "secrets"} <= {one.kind.resource.plural for one in found}
    assert [line.partition(":")[0] for line in warnings] == [
        "controller 'broken' cannot be imported from no_such_package.x"
    ]


def test_unknown_controller_lists_the_known_ones() -> None:
    with pytest.raises(click.UsageError, match="no controller is named 'jop': known are job"):
        find_plugins(("jop",), point("job", "kcr.controllers.job.controller:setup"))


def test_plugin_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(ConfigError, match=r"controller 'mine' cannot be imported from no_such_package\.x:setup"):
        find_plugins(("mine",), point("mine", "no_such_package.x:setup"))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param("sys:path", "sys:path is not a function: name its function setup", id="list"),
        # Called with the manager, a reconciler would be made, and nothing would run.
        pytest.param("kcr:Manager", "kcr:Manager is a class: name its function setup", id="class"),
    ],
)
def test_plugin_that_is_no_function_is_refused(value: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        find_plugins(("mine",), point("mine", value))


@pytest.mark.parametrize("name", ["json:", ":setup", "my-module:setup", "module:"])
def test_name_that_is_no_module_and_function_is_refused(name: str) -> None:
    with pytest.raises(click.UsageError, match=f"{name!r} names no controller: write module:setup, as in an import"):
        find_plugins((name,), {})


def no_manager() -> None: ...


def too_much(manager: object, options: Options, more: int) -> None: ...


def keyword(manager: object, *, zone: str) -> None: ...


def unnamed(manager: object, options: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # that is it


@pytest.mark.parametrize(
    ("setup", "fault"),
    [
        pytest.param(no_manager, "it takes no manager: name a function that adds controllers", id="no-argument"),
        pytest.param(too_much, "it needs more as well, which nothing gives it: name a function", id="three-arguments"),
        pytest.param(keyword, "it needs zone as well, which nothing gives it: name a function", id="keyword"),
        pytest.param(unnamed, "name 'Missing' is not defined: import in its module what", id="missing-name"),
        pytest.param(max, "no signature found for builtin .*: name a function that adds", id="of-c"),
        pytest.param(
            json.dumps, "TypeError: Object of type Manager is not JSON serializable at .*: name a function that adds",
            id="function-for-something-else",
        ),
    ],
)  # fmt: skip
def test_function_that_is_no_setup_is_refused(setup: Setup, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"^controller 'mine': {fault}"):
        attach({"mine": setup}, Manager(Client(FakeSource(Pod))), {})


def test_bug_of_an_installed_operator_is_named_there() -> None:
    code: dict[str, Setup] = {}
    file = f"{sysconfig.get_path('purelib')}/installed_operator.py"
    exec(compile("def setup(manager):\n    {}['zone']\n", file, "exec"), code)
    with pytest.raises(KeyError) as caught:
        attach({"shop": code["setup"]}, Manager(Client(FakeSource(Pod))), {})
    # As the command catches it: without the frame of the test.
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next if caught.value.__traceback__ else None)
    assert f"{unexpected(error)}: {remedy(error)}".startswith(
        "KeyError: 'zone' at installed_operator.py:2 in setup: correct it there;"
    )


def test_error_of_the_users_setup_stays_as_it_is() -> None:
    def setup(manager: Manager) -> None:
        raise LookupError("of mine")

    with pytest.raises(LookupError, match="of mine"):
        attach({"": setup}, Manager(Client(FakeSource(Pod))), {})


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        pytest.param("KCR_WORKER", "KCR_WORKERS", id="letter-missing"),
        pytest.param("KCR_TAKEOVER", "KCR_TAKE_OVER", id="underscore-missing"),
        pytest.param("KCR_WORKERS_", "KCR_WORKERS", id="letter-too-much"),
        pytest.param("KCR_FOO", "", id="like-none"),
    ],
)
def test_unknown_variable_has_its_nearest_name(variable: str, nearest: str) -> None:
    known = ("KCR_WORKERS", "KCR_TAKE_OVER", "KCR_FOLLOW")
    assert unknown_variables({variable: "", "KCR_WORKERS": "", "KUBECONFIG": ""}, known) == {variable: nearest}


async def asynchronous(manager: object) -> None: ...


def test_asynchronous_setup_is_refused_with_the_remedy() -> None:
    manager = Manager(Client(FakeSource(Pod)))
    with pytest.raises(ConfigError, match=r"controller 'mine': its setup is an async function: write `def setup"):
        attach({"mine": asynchronous}, manager, {})


def test_setup_that_adds_nothing_is_refused_with_the_remedy() -> None:
    def empty(manager: Manager) -> None:
        """Forget the controller."""

    remedy = r"setup adds nothing to the manager: call manager\.add_controller\(…\), add_"
    for setups, names in (
        ({"": empty}, "the program"),
        ({"a": empty, "b": empty}, "controller 'a' and controller 'b'"),
    ):
        with pytest.raises(ConfigError, match=f"^{names}: {remedy}"):
            attach(setups, Manager(Client(FakeSource(Pod))), {})
    attach({}, Manager(Client(FakeSource(Pod))), {})
    attach({"a": empty, "b": lambda manager: manager.store(Pod)}, Manager(Client(FakeSource(Pod))), {})


def test_function_of_the_working_directory_is_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kcr_test_greeter.py").write_text("def setup(manager): ...\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (setup,) = find_plugins(("kcr_test_greeter:setup",)).values()
    assert setup.__module__ == "kcr_test_greeter"
    for absent in ("kcr_test_absent:setup", "kcr_test_greeter:stup"):
        with pytest.raises(ConfigError, match=f"'{absent}' cannot be imported: .*Error: .*: name it module:setup"):
            find_plugins((absent,))
