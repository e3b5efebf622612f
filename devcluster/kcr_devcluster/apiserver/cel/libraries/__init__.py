"""The functions that expressions may call: those of the language, of its extensions, and of Kubernetes.

Source: k8s.io/apiserver/pkg/cel/environment/base.go.
"""

from functools import cache

from kcr_devcluster.apiserver.cel.libraries import (
    addresses,
    authorizer,
    conversions,
    formats,
    lists,
    operators,
    optionals,
    quantities,
    regexes,
    strings,
    times,
    urls,
    versions,
)
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload

__all__ = ["Functions", "Overload", "functions"]

_LIBRARIES: tuple[Functions, ...] = tuple(
    module.FUNCTIONS
    for module in (
        operators, conversions, times, strings, optionals, urls, regexes, lists, authorizer, quantities, addresses,
        formats, versions,
    )
)  # fmt: skip


@cache
def functions(*, with_patches: bool = False) -> Functions:
    """Return all functions by their names, each with its overloads in the order in which upstream declares them.

    Args:
        with_patches: Whether expressions make JSON patches, and so have the functions for these.
    """
    found: dict[str, tuple[Overload, ...]] = {}
    for library in (*_LIBRARIES, *((strings.PATCH_FUNCTIONS,) if with_patches else ())):
        for name, overloads in library.items():
            found[name] = (*found.get(name, ()), *overloads)
    return found
