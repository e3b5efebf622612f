"""Google's library: its extensions, types and functions as Kubernetes has them; loaded with the first expression."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcr_devcluster.apiserver.structural.cel.functions import Overload

# The extensions of the language that Kubernetes 1.36 has.
# Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/environment/base.go.
STRINGS_VERSION, OPTIONAL_VERSION = 2, 1
LIBRARIES = "extensions: [{name: cel.lib.ext.lists}, {name: cel.lib.ext.comprev2}, {name: cel.lib.ext.sets}]"
# Compiled expressions have no macros: the compiler expands them.
FOR_EVALUATION = "extensions: [{name: cel.lib.ext.lists}, {name: cel.lib.ext.sets}]"


@cache
def library_type(name: str) -> Any:
    """Return the library's type for one of ours: a scalar, `list(…)` or `map(…, …)`."""
    from cel_expr_python import cel  # noqa: PLC0415

    if name.startswith("list("):
        return cel.Type.List(library_type(name[5:-1]))
    if name.startswith("map("):
        key, _, entry = name[4:-1].partition(", ")
        return cel.Type.Map(library_type(key), library_type(entry))
    return getattr(cel.Type, name.upper())


@cache
def kubernetes_functions() -> Any:
    """Return the extension with the functions of Kubernetes."""
    from kcr_devcluster.apiserver.structural.cel.functions import FUNCTIONS  # noqa: PLC0415  # not needed without expressions

    named = {
        name: {f"kubernetes_{name.replace('.', '_')}_{position}": one for position, one in enumerate(overloads)}
        for name, overloads in FUNCTIONS.items()
    }
    return extension("kubernetes", named)


@cache
def map_functions() -> Any:
    """Return the extension with the functions of maps, for evaluation."""
    from kcr_devcluster.apiserver.structural.cel.functions import MAP_FUNCTIONS  # noqa: PLC0415

    return extension("maps", MAP_FUNCTIONS)


def extension(name: str, functions: Mapping[str, Mapping[str, "Overload"]]) -> Any:
    """Return functions of ours as an extension of the library.

    Args:
        name: The name of the extension.
        functions: By name, the overloads by their ids.
    """
    from cel_expr_python import cel  # noqa: PLC0415

    declared = [
        cel.FunctionDecl(
            function,
            [
                cel.Overload(
                    called,
                    library_type(one.returns),
                    [library_type(parameter) for parameter in one.parameters],
                    one.is_member,
                    one.call,
                )
                for called, one in overloads.items()
            ],
        )
        for function, overloads in functions.items()
    ]
    return cel.CelExtension(name, declared)
