"""The pages of docs/reference/ that are made from the code: `python -m tools.reference` writes them.

One page per public package, from docstrings, with every name of its `__all__`; signatures are taken from the source, so
that defaults look as they are written. And one of all metrics. `make test` compares the pages with what this script
would write.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec

import kcr
import kcr.api.full
from kcr.annotations import hints_of
from kcr.app.fields import OptionField, fields_of, text_of
from kcr.app.options import PluginOptions
from kcr.app.plugins import attach, find_plugins
from kcr.cli import run
from kcr.clusters import Clusters
from kcr.controllers.cronjob.controller import Options as CronJobOptions
from kcr.controllers.job.controller import Options as JobOptions
from kcr.testing import FakeManager
from kcr_devcluster.dev import command as dev
from tools import completions

COMMAND_LINE = "command-line.md"
FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = ("kcr", "kcr.client", "kcr.dependents", "kcr.testing")
# Names that fewer programs need, by module; the others of these modules are kcr's own.
NAMES = {
    "kcr.api.meta": "PartialObjectMetadata OwnerReference controller_reference is_controlled_by",
    "kcr.clock": "Clock SystemClock",
    "kcr.clusters": "MemberCluster",
    "kcr.controller": (
        "ControllerOptions Source ThreadBusyError ThreadTimeoutError WaitTimeoutError all_of annotations_changed "
        "any_of finalizers_changed is_abandoned labels_changed labels_match none_of reconcile_requested_at "
        "resource_version_changed"
    ),
    "kcr.errors": ("BadRequestError GoneError UnauthorizedError TooManyRequestsError ServerError LeadershipLostError"),
    "kcr.informer": "Handler Informer InformerHandle Trigger",
    "kcr.metrics": "Metrics",
    "kcr.scopes.leaderelection": "LeaderElectionConfig LeaderElector",
    "kcr.serving.ports": "SecureServing",
    "kcr.workqueue": "RateLimiter Reason WorkQueue",
}
METRICS = """Made from the code by `python -m tools.reference`.

The metrics of `/metrics` with all three controllers of kcr; `--metrics-bind-address` sets the address
([command line](command-line.md)). Names and help texts are upstream's where upstream has the metric: client-go's work
queue and REST client, controller-runtime, and kube-controller-manager. Register your own metrics with
`manager.metrics.registry`. On Linux the usual `process_…` metrics are added.

As OpenMetrics (`Accept: application/openmetrics-text`), the buckets of `controller_runtime_reconcile_time_seconds`,
`rest_client_request_duration_seconds` and `kcr_job_end_delay_seconds` have exemplars if traces are enabled
([traces](../guide/observe.md#traces)): `trace_id` and `span_id` of the last sampled observation.

These metrics of client-go have no equivalent: `rest_client_transport_…` (kcr caches no transports),
`rest_client_exec_plugin_ttl_seconds`, `…_certificate_rotation_age` and `…_policy_call_total`. Requests of leader
election use separate connections and are not counted. `rest_client_request_duration_seconds` measures one attempt up
to the begin of the response, watches included; client-go's ends with the body of the last attempt."""
KINDS = """Made from the classes by `python -m tools.reference`.

A **view** has the fields that controllers read: watch and cache it. A **complete** type has all fields of the API:
create, apply and update it ([views and complete types](../guide/own-kinds.md#views-and-complete-types)). Where a kind
has both, one of them is enough for `kcr.watch` and `manager.store`. `kcr types generate v1/ResourceQuota -o quota.py`
writes the classes of any kind that is not here.

Fields have the names of the API in snake case, `restart_policy` for `restartPolicy`; one that would hide a Python
name ends in `_`. A list is a tuple, and a map a dict. `help(kcr.api.full.core_v1.PodSpec)` shows the fields of a
complete type.

`kcr.api.selectors` has label selectors: `LabelSelector(match_labels={"app": "web"},
match_expressions=(Requirement(key="tier", operator="In", values=("a", "b")),))`, with the operators `In`, `NotIn`,
`Exists` and `DoesNotExist`. `matches(selector, labels)` says whether labels satisfy one, and `text(selector)` returns
the form for `client.list(…, labels=…)` and `kcr.Selection`: `app=web,tier in (a,b)`. One without labels and
expressions matches everything."""
# Modules with the kinds that Kubernetes has itself; the first ones have views among them.
_VIEWS = ("kcr.api.core", "kcr.api.batch", "kcr.api.apps", "kcr.api.coordination")
# Sections of docstrings whose entries are `name: text`.
_LISTED = ("Args", "Attributes", "Raises")
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Source):(.*)$")


# Of types in a signature that is not read from the source.
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])|\bdatetime\.")
_OPTIONAL = re.compile(r"Optional\[(.+)\](?= =)")
# Python before 3.14 shows some unions so: of names, and of generic types that are nested twice at most.
_INNER = r"[^\[\],]+(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])?"
_UNION = re.compile(rf"Union\[({_INNER}(?:, {_INNER})*)\]")


def _is_made(function: Any) -> bool:
    return hasattr(function, "__signature__")


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    made = {f"{package}.md": _page(package) for package in (*PACKAGES, *NAMES)} | {
        "metrics.md": _metrics(),
        "kinds.md": _kinds(),
    }
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()} | {COMMAND_LINE: _command_line()}


def _command_line() -> str:
    """Return the page of the command line, its tables made from the structs of options."""
    tables = {
        "kcr dev": _options(dev.command),
        "kcr run": _options(run.command),
        "variables of the controllers": _variables(),
    }  # fmt: skip
    text = (FOLDER / COMMAND_LINE).read_text(encoding="utf-8")
    for name, rows in tables.items():
        begin, end = f"<!-- {name}: made by `python -m tools.reference` -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        assert found, name
        text = "\n".join((before + begin, *rows, "", end + rest.partition(end)[2]))
    return text


def _options(command: click.Command) -> Iterator[str]:
    yield from ("| option | variable | meaning |", "|---|---|---|")
    for option in command.params:
        assert isinstance(option, click.Option)
        field = getattr(option.type, "field", None)
        value = "|".join(field.choices) if field and field.choices else option.metavar
        spelled = ", ".join(f"`{one} {value or ''}".rstrip() + "`" for one in (*option.opts, *option.secondary_opts))
        default = option.show_default if isinstance(option.show_default, str) else option.default
        meaning = (option.help or "") + (_more(field, default) if field else "")
        yield f"| {_cell(spelled)} | `{option.envvar}` | {_cell(meaning)} |"


def _variables() -> Iterator[str]:
    yield from ("| variable | meaning |", "|---|---|")
    shared = PluginOptions.__struct_fields__
    for kind in (JobOptions, CronJobOptions):
        for field in fields_of(kind):
            if field.name not in shared:
                yield f"| `KCR_{field.name.upper()}` | {_cell(field.help + _more(field, field.default))} |"


def _more(field: OptionField, default: object) -> str:
    """Return what else there is to say of an option: its bounds, its default, and where the guide explains it."""
    bounds = f" {field.bounds.capitalize()}." if field.bounds else ""
    shown = f"{default:g}" if isinstance(default, float) else text_of(default)
    told = "" if shown in (None, "", False) else f" Default: {shown}."
    return bounds + told + (f" [More](../guide/{field.flag.guide})." if field.flag.guide else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _metrics() -> Iterator[str]:
    manager = FakeManager()
    attach(find_plugins(("job", "ttl", "cronjob")), manager, {}, take_over=True)
    Clusters(manager)
    yield from ("# Metrics", "", METRICS, "", "| metric | type | labels | meaning |", "|---|---|---|---|")
    # The labels of a family without series are known to its collector alone.
    collectors: list[Any] = list(vars(manager.metrics.registry)["_collector_to_names"])
    for collector in collectors:
        for family in collector.collect():
            # The process's own depend on the platform.
            if family.name.startswith("process_"):
                continue
            labels: Sequence[str] = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            name = f"{family.name}_total" if family.type == "counter" else family.name
            shown = ", ".join(f"`{label}`" for label in labels)
            yield f"| `{name}` | {family.type} | {shown} | {family.documentation.rstrip('.')} |"


def _kinds() -> Iterator[str]:
    full = [f"kcr.api.full.{found.name}" for found in pkgutil.iter_modules(kcr.api.full.__path__)]
    rows: dict[tuple[str, str], list[str]] = {}
    for name in (*_VIEWS, *full):
        for kind in _own_structs(importlib.import_module(name)):
            if issubclass(kind, kcr.Resource):
                view = " (view)" if issubclass(kind, kcr.ResourceView) else ""
                rows.setdefault((kind.resource.api_version, kind.__name__), []).append(f"`{name}`{view}")
    yield from ("# Kinds", "", KINDS, "", "| kind | apiVersion | modules |", "|---|---|---|")
    for (version, kind_name), modules in sorted(rows.items()):
        yield f"| {kind_name} | `{version}` | {', '.join(modules)} |"
    for name in _VIEWS:
        yield from ("", f"## {name}", "", "```text")
        module = importlib.import_module(name)
        nodes = {one.name: one for one in ast.parse(inspect.getsource(module)).body if isinstance(one, ast.ClassDef)}
        for kind in _own_structs(module):
            fields = [one for one in nodes[kind.__name__].body if _is_public_field(one)]
            bases = ", ".join(base.__name__ for base in kind.__bases__)
            yield from (
                f"class {kind.__name__}({bases})",
                *(f"    {ast.unparse(_Bare().visit(one))}" for one in fields),
            )
        yield "```"


def _own_structs(module: ModuleType) -> list[type]:
    found = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
    return [one for one in found if issubclass(one, kcr.Object) and not one.__name__.startswith("_")]


def _page(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    yield from (f"# {package}", "", f"Made from the docstrings of `{package}` by `python -m tools.reference`.", "")
    names = NAMES[package].split() if package in NAMES else module.__all__
    if package in PACKAGES:
        yield from (*_text(module), "")
    own = sorted(names, key=str.lower)
    if package != "kcr" and (shared := [name for name in own if name in dir(kcr)]):
        links = ", ".join(f"[`{name}`](kcr.md#{name.lower()})" for name in shared)
        yield from (f"Names that are described as those of `kcr`: {links}.", "")
        own = [name for name in own if name not in shared]
    for name in own:
        yield from _entry(name, getattr(module, name), frozenset(names))


def _entry(name: str, value: Any, documented: frozenset[str]) -> Iterator[str]:
    yield from (f"## {name}", "")
    if inspect.isclass(value):
        yield from _class(name, value, documented)
    elif isinstance(value, ModuleType):
        yield from (*_text(value), "")
        for member, function in inspect.getmembers(value, inspect.isfunction):
            if not member.startswith("_") and function.__module__ == value.__name__:
                yield from _function("###", f"{name}.{member}", function)
    elif inspect.isfunction(value):
        yield from _function("", name, value)
    else:
        yield from (f"`{name} = {value!r}`", "")


def _class(name: str, value: type, documented: frozenset[str]) -> Iterator[str]:
    node = _node(value)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {name}({bases})" if bases else f"class {name}"]
    init = value.__dict__.get("__init__")
    written = inspect.isfunction(init) and not inspect.unwrap(init).__code__.co_filename.startswith("<")
    if written:
        lines.append(_signature(name, init))
    else:
        lines += [f"    {ast.unparse(_Bare().visit(field))}" for field in node.body if _is_public_field(field)]
    yield from ("```text", *lines, "```", "", *_text(value), "", *_described(value))
    if written and init.__doc__:
        yield from (*_text(init), "")
    for member, function in _methods(value, documented):
        yield from _function("###", f"{name}.{member}", function)


def _methods(value: type, documented: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, those of bases that have no entry of their own included.

    Methods that call those of another class are left out: the docstring of the class names them.
    """
    seen: set[str] = set()
    classes = {base.__qualname__ for base in value.__mro__}
    for base in value.__mro__:
        if not base.__module__.startswith("kcr") or (base is not value and base.__name__ in documented):
            continue
        for member, found in base.__dict__.items():
            function = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", found), stop=_is_made)
            if member.startswith("_") or member in seen or not inspect.isfunction(function):
                continue
            seen.add(member)
            if inspect.unwrap(function).__qualname__.rpartition(".")[0] in classes:
                yield member, function


def _function(level: str, name: str, function: Any) -> Iterator[str]:
    if level:
        yield from (f"{level} {name}", "")
    yield from ("```text", _signature(name, inspect.unwrap(function, stop=_is_made)), "```", "", *_text(function))
    if _is_made(function):
        *_, kind = (one for name, one in hints_of(inspect.unwrap(function)).items() if name != "return")
        yield from ("", *_described(kind))
    yield ""


def _described(kind: type) -> Iterator[str]:
    """Yield the fields of a struct that texts among its annotations describe."""
    fields = [field for field in fields_of(kind) if field.help] if issubclass(kind, msgspec.Struct) else []
    if fields:
        yield from ("**Options**:", "", *(f"- `{field.name}`: {field.help}{_default(field)}" for field in fields), "")


# Names of types with bounds.
_BARE = {
    "Count": "int", "EventType": "str", "FieldPath": "str", "FieldSelector": "str", "NamespaceName": "str",
    "NamespaceNames": "str", "NotNegative": "float",
    "Phase": "str", "Positive": "float", "Selector": "str", "Text": "str",
}  # fmt: skip


class _Bare(ast.NodeTransformer):
    """Drops annotations of types."""

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if ast.unparse(node.value) != "Annotated":
            return self.generic_visit(node)
        assert isinstance(node.slice, ast.Tuple)
        return self.visit(node.slice.elts[0])

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_BARE.get(node.id, node.id))


def _default(field: OptionField) -> str:
    shown = field.flag.default or text_of(field.default)
    return "" if shown in (None, "") else f" Default: {shown}."


def _signature(name: str, function: Any) -> str:
    if made := getattr(function, "__signature__", None):
        # Its keywords are the fields of a struct.
        texts = (_MODULE.sub("", str(one)) for one in made.parameters.values())
        shown = [_OPTIONAL.sub(r"\1 | None", _UNION.sub(_alternatives, text)) for text in texts]
        leading = sum(one.kind is not one.KEYWORD_ONLY for one in made.parameters.values())
        rest = ",\n    ".join((*(one for one in shown[:leading] if one != "self"), "*", *shown[leading:]))
        returned = made.return_annotation
        return f"{name}(\n    {rest},\n) -> {getattr(returned, '__name__', returned)}"
    node = _Bare().visit(_node(function))
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    if "property" in decorators:
        return f"{name}{returns.replace(' -> ', ': ')}"
    parts = tuple(_arguments(arguments))
    line = f"{prefix}{name}({', '.join(parts)}){returns}"
    if len(line) <= 110:
        return line
    rest = ",\n    ".join(parts)
    return f"{prefix}{name}(\n    {rest},\n){returns}"


def _alternatives(union: re.Match[str]) -> str:
    parts = re.findall(rf"({_INNER})(?:, |$)", union[1])
    return " | ".join("None" if part == "NoneType" else part for part in parts)


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = len(plain) - len(arguments.defaults)
    for place, argument in enumerate(plain):
        yield _argument(argument, arguments.defaults[place - missing] if place >= missing else None)
    if arguments.vararg:
        yield f"*{_argument(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwarg:
        yield f"**{_argument(arguments.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if argument.annotation else "="
    if isinstance(argument.annotation, ast.Constant):
        # In quotes, where the name is imported for types only.
        argument.annotation = ast.parse(str(argument.annotation.value), mode="eval").body
    return ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def _node(value: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _is_public_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")


def _text(value: Any) -> Iterator[str]:
    """Yield a docstring as Markdown: its sections become paragraphs, their entries lists."""
    section = ""
    for line in (inspect.cleandoc(value.__doc__ or "")).splitlines():
        match = _SECTION.match(line)
        entry = re.match(r"^    (\*{0,2}\w+): (.*)$", line)
        if match:
            section = match[1]
            yield from (f"**{section}**:{match[2]}", *([""] if section in _LISTED else []))
        elif entry and section in _LISTED:
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            if line and not line.startswith(" "):
                section = ""
            # Sections are indented; code in the prose is fenced, and keeps its own indentation.
            yield f"  {line.strip()}".rstrip() if section in _LISTED else line.strip() if section else line


def main() -> None:
    """Write the pages, and the table of completions, which has the options as well."""
    completions.main()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
