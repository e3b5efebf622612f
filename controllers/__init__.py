"""The controllers that kcr ships: plugins, found through the entry-point group `kcr.controllers`."""

from kcr.errors import ConfigError


def require_take_over(name: str, *, instead_of: str, take_over: bool) -> None:
    """Refuse a controller beside the cluster's own, when no field says which of the two an object belongs to.

    Args:
        name: The controller.
        instead_of: The name of kube-controller-manager's own controller.
        take_over: The user's word that its own does not run.

    Raises:
        ConfigError: The user has not said so.
    """
    if not take_over:
        raise ConfigError(
            f"controller {name!r} cannot share a cluster with kube-controller-manager's own: "
            f"start that with --controllers=*,-{instead_of}, and this one with take_over (kcr run --take-over)"
        )
