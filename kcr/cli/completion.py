"""`kcr completion`: the completion scripts for shells, and the completion of `kubectl kcr …`."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_SHELLS = ("bash", "fish", "zsh")
# As of kubectl: do not complete the names of files.
_NO_FILES = 4


@click.command("completion", epilog="Exit codes: 0, 2 on a wrong option.")
@click.argument("shell", type=click.Choice(_SHELLS), metavar="|".join(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion of options, and names of controllers, namespaces and objects.

    For bash: source <(kcr completion bash)
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = ctx.find_root().command
    click.echo(completion(root, {}, "kcr", "_KCR_COMPLETE").source())


def kubectl_complete() -> None:
    """Complete `kubectl kcr …`: the program `kubectl_complete-kcr`, which kubectl calls with the words so far.

    Source: kubernetes/staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go.
    """
    from kcr.cli.main import cli  # noqa: PLC0415  # it imports commands by name, this one among them

    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "kcr", "_KCR_COMPLETE").get_completions(words, incomplete):
        click.echo(item.value)
    click.echo(f":{_NO_FILES}")
