"""`kcr policy generate`: ValidatingAdmissionPolicies with the CEL rules of classes, as YAML."""

from collections.abc import Iterator

import click

from kcr.api.meta import Resource
from kcr.cli.output import write_output
from kcr.errors import ConfigError
from kcr_devcluster.generators.crd import kinds_in
from kcr_devcluster.generators.policies import policy_manifests, schema_without_defaults
from kcr_devcluster.generators.review import unguarded
from kcr_devcluster.generators.webhooks import named
from kcr_devcluster.yaml_writer import yaml_documents


@click.group("policy")
def command() -> None:
    """Make policies for kinds of others."""


@command.command(
    "generate", short_help="Write admission policies with the rules of classes.",
    epilog="Exit codes: 0, 1 when a class has no rules or no policy can have one, 2.",
)  # fmt: skip
@click.argument("modules", nargs=-1, required=True, metavar="MODULE[:KIND]…")
@click.option(
    "--name", default="kcr", show_default=True, metavar="NAME", callback=named,
    help="First part of the policies' names.",
)  # fmt: skip
@click.option(
    "--action", "actions", default=("deny",), show_default=True, multiple=True,
    type=click.Choice(("deny", "warn", "audit"), case_sensitive=False),
    help="The effect of a violation. May be repeated.",
)  # fmt: skip
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="File to write; `-` for stdout.")
def generate(modules: tuple[str, ...], name: str, actions: tuple[str, ...], output: str) -> None:
    """Write the CEL rules of classes as ValidatingAdmissionPolicies with bindings: for kinds of others.

    Your class declares the fields that its rules name, for example of a Deployment, with api_version= and plural= of
    that kind. Rules of your own kinds belong into their definitions: `kcr crd generate`.
    """
    if {"deny", "warn"} <= set(actions):
        raise click.UsageError("--action deny and warn report the same violation twice: choose one of them")
    manifests = []
    for kind in {one: None for module in modules for versions in kinds_in(module, foreign=True) for one in versions}:
        try:
            said = f"{name}-{kind.resource.display}"
            manifests += policy_manifests(kind, said, [one.capitalize() for one in actions])
        except TypeError as error:
            raise ConfigError(str(error)) from error
        for words in _warnings(kind):
            click.echo(f"Warning: {words}", err=True)
    write_output(output, yaml_documents(manifests).encode())


def _warnings(kind: type[Resource]) -> Iterator[str]:
    """Yield a line for each rule that fails on an absent field."""
    for one in unguarded(schema_without_defaults(kind)):
        yield (
            f"{kind.__name__}: the rule `{one.rule}` of {one.place or 'the object'} fails where {one.selection} is "
            f"absent, as defaults of a class are not those of the API server: begin it with `!has({one.selection}) ||`"
        )
