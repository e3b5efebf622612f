"""`kcr init`: a new folder with a kind of your own, its controller and its tests.

It writes the example Website under other names: the folder `_website` is a link to `examples/website`.
"""

import io
import keyword
import re
import secrets
import shutil
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from kcr.api.meta import Key
from kcr.app.plugins import find_plugins
from kcr.atomicfile import name_in_errors, replace_files
from kcr.cli.output import unwritable
from kcr.errors import ConfigError
from kcr.serving.webhooks.conversion import WebhookService
from kcr_devcluster.generators.crd import file_name, kinds_in_all, manifest_of
from kcr_devcluster.generators.imports import LINE_LENGTH, with_sorted_imports
from kcr_devcluster.generators.rbac import roles_text
from kcr_devcluster.generators.requirement import KcrRequirement, devcluster_requirement, installed_requirement
from kcr_devcluster.generators.webhooks import webhooks_text
from kcr_devcluster.yaml_writer import yaml_text

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
# A file of the webhooks, in the README's table.
_ROW = re.compile(r"\| `examples/website/(webhook|v1beta1|test_webhook|chart)")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")

# Kubernetes' own kinds; a test compares them with its schema.
_BUILTIN_KINDS = frozenset((
    "CSIDriver", "CSINode", "CSIStorageCapacity", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle",
    "ConfigMap", "ControllerRevision", "CronJob", "DaemonSet", "Deployment", "DeviceClass", "DeviceTaintRule",
    "EndpointSlice", "Endpoints", "Event",
    "FlowSchema", "HorizontalPodAutoscaler", "Ingress", "IngressClass", "Job", "Lease", "LimitRange",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace",
    "NetworkPolicy", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodCertificateRequest",
    "PodDisruptionBudget", "PodTemplate",
    "PriorityClass", "PriorityLevelConfiguration", "ReplicaSet", "ReplicationController", "ResourceClaim",
    "ResourceClaimTemplate", "ResourceQuota", "ResourceSlice", "Role", "RoleBinding", "RuntimeClass", "Secret",
    "Service", "ServiceAccount", "StatefulSet", "StorageClass", "StorageVersionMigration", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass",
))  # fmt: skip

# Files of the example, and where they are in the new folder.
_FILES: Mapping[str, str] = {
    "README.md": "README.md",
    "AGENTS.md": "AGENTS.md",
    "api.py": "{package}/api.py",
    "controller.py": "{package}/controller.py",
    "test_controller.py": "tests/test_controller.py",
    "manifests/website.yaml": "manifests/{singular}.yaml",
}
# The same for --webhook.
_WEBHOOK_FILES: Mapping[str, str] = {
    "v1beta1.py": "{package}/v1beta1.py",
    "webhook.py": "{package}/webhook.py",
    "test_webhook.py": "tests/test_webhook.py",
    "chart/Chart.yaml": "chart/Chart.yaml",
    "chart/values.yaml": "chart/values.yaml",
    **{f"chart/templates/{name}.yaml": f"chart/templates/{name}.yaml" for name in ("crds", "deployment", "sharding")},
}
# Names of folders beside the package.
_FOLDERS = ("chart", "manifests", "tests")

_PACKAGE = '"""The kind {kind} and its controller."""\n'
_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "A Kubernetes controller of the kind {kind}"
readme = "README.md"
requires-python = ">=3.11"
{kcr_origin}dependencies = [{kcr}]

[project.optional-dependencies]
test = [{test}]

# `kcr run --controllers {name}` and `kcr dev --controllers {name}` find it here once it is installed.
[project.entry-points."kcr.controllers"]
{name} = "{package}.{setup}:setup"

[tool.setuptools]
packages = ["{package}"]

[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
asyncio_default_fixture_loop_scope = "function"
pythonpath = ["."]
testpaths = ["tests"]

[tool.ruff]
line-length = {line_length}
"""


class Names(NamedTuple):
    """The names of a new project and its kind.

    Attributes:
        name: The project and its folder.
        package: Its Python package.
        kind: The kind, such as `Website`.
        singular: The kind in lower case.
        plural: As in paths of the API.
        group: The API group.
    """

    name: str
    package: str
    kind: str
    singular: str
    plural: str
    group: str


@click.command("init", epilog="Exit codes: 0, 1 when the folder exists or cannot be written, 2 on a wrong name.")
@click.argument("name", metavar="NAME", default="")
@click.option("--kind", default="", show_default="NAME in CamelCase", help="The kind, such as Website.")
@click.option("--group", default="", show_default="example.dev", help="The API group, a domain of yours.")
@click.option("--webhook", is_flag=True, help="Add webhooks: defaulter, validator, a second version, and a chart.")
@click.option(
    "--update", "updates", is_flag=True,
    help="Make the generated files of the project in NAME, or in this folder, anew, and print what has changed.",
)  # fmt: skip
def command(name: str, *, kind: str, group: str, webhook: bool, updates: bool) -> None:
    """Make a project of your own in the new folder NAME.

    It has a kind, its controller, and tests that pass.
    """
    if updates:
        if kind or group or webhook:
            raise click.UsageError(
                "--update: the project has its kind, its group and its webhooks: name the folder alone"
            )
        _update(Path(name or "."))
        return
    if not name:
        raise click.UsageError("Missing argument 'NAME'.")
    names = names_of(name, kind, group or "example.dev")
    folder, kcr, devcluster = Path(name), installed_requirement(), devcluster_requirement()
    if folder.exists():
        raise ConfigError(f"{name} exists: choose another name; --update renews the generated files of a project")
    with unwritable("work in a folder that can be written"):
        files = write(folder, names, kcr, devcluster, webhook=webhook)
    click.echo("\n".join(map(str, files)))
    if kcr.missing:
        click.echo(
            f"kcr: it was installed from {kcr.missing}, which is gone: see dependencies in {name}/pyproject.toml",
            err=True,
        )
    modules = "api.py, controller.py and webhook.py" if webhook else "api.py and controller.py"
    click.echo(_NEXT.format(**names._asdict(), setup=_setup(webhook), modules=modules), err=True)


def _update(folder: Path) -> None:
    """Make the generated files of a project anew, and print the differences.

    Raises:
        ConfigError: It is no project of `kcr init`, its modules cannot be imported, or a file cannot be written.
    """
    package = _package_in(folder)
    changed: dict[Path, bytes] = {}
    for target, text in _made(folder, package, _service_in(folder)):
        path = folder / target
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != before:
            changed[path] = text.encode()
            lines = before.splitlines(keepends=True), text.splitlines(keepends=True)
            click.echo("".join(unified_diff(*lines, f"a/{target}", f"b/{target}")), nl=False)
    with unwritable("make its folder, or let it be written"):
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_files(changed)
    click.echo("\n".join(f"updated {path}" for path in changed) or "all is up to date", err=True)


def _package_in(folder: Path) -> str:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        (package,) = project["tool"]["setuptools"]["packages"]
        if not (folder / package / "api.py").exists():
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "go to the folder of a project that kcr init has made, or name it"
        raise ConfigError(
            f"{folder.resolve()} has no pyproject.toml with a package that has an api.py: {hint}"
        ) from error
    return str(package)


def _service_in(folder: Path) -> WebhookService | None:
    """Return the Service of a project's webhooks, whose chart has its name; None without webhooks."""
    chart = folder / "chart" / "Chart.yaml"
    if not chart.exists():
        return None
    found = re.search(r"^name: *([-a-z0-9]+) *$", chart.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ConfigError(f"{chart}: has no name: write name: and that of the chart and of its Service")
    return WebhookService(found[1], found[1])


_NEXT = """
what next:
  cd {name}
  python3 -m venv .venv && . .venv/bin/activate
  pip install -e '.[test]'
  pytest
  kcr dev --controllers {package}.{setup}:setup -f manifests
then edit {modules} in {package}/; README.md says how to go on"""


def _setup(webhook: bool) -> str:
    """Return the module with the setup function that has all there is."""
    return "webhook" if webhook else "controller"


def names_of(name: str, kind: str, group: str) -> Names:
    """Return the names of a project.

    Args:
        name: Of the project: a DNS label.
        kind: Of its kind; empty for the project's name in CamelCase.
        group: The API group.

    Raises:
        click.UsageError: One cannot be used; the message says why.
    """
    package = name.replace("-", "_")
    if not _LABEL.fullmatch(name):
        raise click.UsageError(f"NAME {name!r}: use lower-case letters, digits and dashes, beginning with a letter")
    if keyword.iskeyword(package) or package in _FOLDERS or find_spec(package) is not None:
        raise click.UsageError(f"NAME {name!r}: {package} is the name of something else here: choose another one")
    kind = kind or "".join(word.capitalize() for word in name.split("-"))
    singular = kind.lower()
    if not _KIND.fullmatch(kind):
        raise click.UsageError(f"--kind {kind!r}: write it in CamelCase, with letters and digits only")
    if kind in _BUILTIN_KINDS:
        raise click.UsageError(f"--kind {kind}: Kubernetes has such a kind, and kubectl would mean that one")
    taken = _names_in_example()
    if keyword.iskeyword(singular) or {kind, singular, plural_of(singular)} & taken:
        raise click.UsageError(
            f"--kind {kind}: the example calls something else {kind} or {singular}; use another word"
        )
    for word in (kind, singular, plural_of(singular)):
        if yaml_text([word]) != f"- {word}\n":
            raise click.UsageError(f"--kind {kind}: readers of YAML take {word!r} for no text; use another word")
    if not _GROUP.fullmatch(group) or group.endswith(".k8s.io"):
        raise click.UsageError(f"--group {group!r}: use a domain of your own, such as example.dev")
    return Names(name, package, kind, singular, plural_of(singular), group)


def plural_of(singular: str) -> str:
    """Return the plural of an English word, as far as its end tells."""
    if re.search(r"(s|x|z|ch|sh)$", singular):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if re.search(r"[^aeiou]y$", singular) else f"{singular}s"


def _example() -> Traversable:
    return resources.files("kcr_devcluster.generators") / "_website"


def _names_in_example() -> frozenset[str]:
    """Return the names in the code of the example: a kind called like one of them would stand for two things."""
    files = (*_FILES, *_WEBHOOK_FILES)
    texts = [(_example() / name).read_text(encoding="utf-8") for name in files if name.endswith(".py")]
    tokens = (token for text in texts for token in tokenize.generate_tokens(io.StringIO(text).readline))
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME) - {"Website", "website"}


def write(
    folder: Path, names: Names, kcr: KcrRequirement, devcluster: KcrRequirement, *, webhook: bool = False
) -> list[Path]:
    """Write a project, as a whole or not at all, and return its files.

    Args:
        folder: Where to; it does not exist.
        names: The names in the project.
        kcr: How it requires kcr.
        devcluster: How its tests require the development cluster; named only where no index has it.
        webhook: Whether it has webhooks.

    Raises:
        OSError: A file cannot be written; `filename` is its path.
    """
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        with name_in_errors(folder):
            beside.mkdir()
        known = _known(names, kcr, devcluster, webhook=webhook)
        files = [folder / path for path in _write(beside, folder, names, known, webhook=webhook)]
        with name_in_errors(folder):
            beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return files


def _known(names: Names, kcr: KcrRequirement, devcluster: KcrRequirement, *, webhook: bool) -> dict[str, Any]:
    """Return the fields of the texts in this module."""
    # The extra makes the certificate of webhooks. That kcr-devcluster and the extras require this kcr, the pip of
    # Python 3.11 and 3.12 (23.2) sees only where a project names it without extras as well.
    plain = [kcr.named("kcr")] if kcr.url or not webhook else []
    own = [*plain, *([kcr.named("kcr[secure]")] if webhook else [])]
    origin = (
        f'# Where kcr was installed from; once it is on your index, "kcr{kcr.version}" is enough.\n' if kcr.url else ""
    )
    test = [kcr.named("kcr[test]"), *([devcluster.named("kcr-devcluster")] if devcluster.url else [])]
    return {
        **names._asdict(), "kcr": _quoted(own), "test": _quoted(test), "setup": _setup(webhook),
        "kcr_origin": origin, "line_length": LINE_LENGTH,
    }  # fmt: skip


def _quoted(requirements: Iterable[str]) -> str:
    return ", ".join(f'"{one}"' for one in requirements)


def _write(folder: Path, final: Path, names: Names, known: Mapping[str, Any], *, webhook: bool) -> Iterator[str]:
    """Write a project to a folder, for errors that name the final one, and yield the paths in it."""

    def written(target: str, text: str) -> str:
        with name_in_errors(final / target):
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).write_text(text, encoding="utf-8")
        return target

    yield written("pyproject.toml", _PROJECT.format(**known))
    yield written(f"{names.package}/__init__.py", _PACKAGE.format(**known))
    for source, target in {**_FILES, **(_WEBHOOK_FILES if webhook else {})}.items():
        text = (_example() / source).read_text(encoding="utf-8")
        text = renamed(text if webhook or source != "README.md" else without_webhooks(text), names)
        is_module = source.endswith(".py")
        yield written(target.format(**known), with_sorted_imports(text, names.package) if is_module else text)
    for target, text in _made(
        folder, names.package, WebhookService(names.singular, names.singular) if webhook else None
    ):
        yield written(target, text)


def _made(folder: Path, package: str, service: WebhookService | None) -> Iterator[tuple[str, str]]:
    """Yield the files that are not renamed but made, as the commands of the README make them of the package.

    Args:
        folder: The project.
        package: Its package.
        service: That of its webhooks; None without webhooks.
    """
    sys.path.insert(0, str(folder))
    try:
        modules = [one for one in ("api", "v1beta1") if (folder / package / f"{one}.py").exists()]
        for versions in kinds_in_all(f"{package}.{one}" for one in modules):
            definition = yaml_text(manifest_of(versions, service or WebhookService()))
            for folder_of in ("manifests", *(("chart/files",) if service else ())):
                yield f"{folder_of}/{file_name(versions)}", definition
        if service:
            setups = find_plugins((f"{package}.webhook:setup",))
            yield "chart/templates/webhooks.yaml", webhooks_text(setups, service)
            yield "chart/templates/rbac.yaml", roles_text(setups, Key(service.namespace, service.name))
    finally:
        sys.path.remove(str(folder))
        # Another project may have the same name.
        for module in [one for one in sys.modules if f"{one}.".startswith(f"{package}.")]:
            del sys.modules[module]


def without_webhooks(readme: str) -> str:
    """Return the README of the example without its webhooks: their section, their files, and their version."""
    rows = [row for row in readme.partition("\n## Webhooks\n")[0].splitlines(keepends=True) if not _ROW.match(row)]
    text = "".join(rows).replace("website.webhook:setup", "website.controller:setup")
    return text.replace(" examples.website.v1beta1 --service website/website", "")


def renamed(text: str, names: Names) -> str:
    """Return a text of the example under other names.

    Args:
        text: Code, prose or a manifest.
        names: The names in the project.
    """
    words = {
        "examples/website/api.py": f"{names.package}/api.py",
        "examples/website/controller.py": f"{names.package}/controller.py",
        "examples/website/test_controller.py": "tests/test_controller.py",
        "examples/website/test_webhook.py": "tests/test_webhook.py",
        **{f"examples/website/{one}.py": f"{names.package}/{one}.py" for one in ("v1beta1", "webhook")},
        "examples/website/": "",
        "examples.website": names.package,
        "example.dev": names.group,
        "# website\n": f"# {names.name}\n",
        "[kcr](../../README.md)": "kcr",
        "Websites": f"{names.kind} objects",
        "websites": names.plural,
        "Website": names.kind,
        "website": names.singular,
    }
    return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], text)
