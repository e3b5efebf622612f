"""Decides the next step for self-made certificates by the Secret, the configurations and the time.

The order keeps every handshake valid. A new authority is stored beside the old one, then published in all
configurations together with it, and only after a while, when all API servers have seen that, is a certificate issued by
it. The old authority is trusted until it expires, so a replica may learn of the new certificate late. A process may end
after each step: the next one decides from the stored state.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

# How long configurations have to carry a new authority before it issues: API servers learn of it by a watch.
SETTLE = timedelta(seconds=30)
# A certificate is replaced after this part of its life.
_SHARE_OF_LIFE = 2 / 3
# It waits for a configuration that cannot be written until this part, and a missing one for an hour: see pem.SLACK.
_LAST_SHARE_OF_LIFE = 19 / 20
_PATIENCE = timedelta(hours=2)


class Certificate(NamedTuple):
    """A certificate: PEM, and when it is valid."""

    pem: bytes
    not_before: datetime
    not_after: datetime

    def has_expired(self, now: datetime) -> bool:
        """Return whether it is valid no more."""
        return now >= self.not_after

    def is_valid(self, now: datetime) -> bool:
        """Return whether it is valid; one that was made by a clock that is ahead may not be yet."""
        return self.not_before <= now < self.not_after

    @property
    def due(self) -> datetime:
        """When it is to be replaced."""
        return self.after(_SHARE_OF_LIFE)

    def after(self, share: float) -> datetime:
        """Return when this part of its life is over."""
        return self.not_before + share * (self.not_after - self.not_before)


class Chain(NamedTuple):
    """The usable certificates of a Secret.

    Attributes:
        authority: Issues certificates; None where it or its key cannot be used.
        serving: The certificate of the port; None where it or its key cannot be used, or names another Service.
        is_current: Whether `authority` has issued `serving`; otherwise one of `previous` may have.
        previous: Authorities that are still trusted.
    """

    authority: Certificate | None
    serving: Certificate | None
    is_current: bool
    previous: tuple[Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """The `caBundle` of configurations."""
        trusted = (*((self.authority,) if self.authority else ()), *self.previous)
        return b"".join(dict.fromkeys(one.pem for one in trusted))


class Observed(NamedTuple):
    """The world of a decision.

    Attributes:
        stored: The content of the Secret; None when there is none.
        draft: This process's content for a missing Secret: the certificates that it saw last, or an authority.
        bundles: The `caBundle` of every `clientConfig` that asks for one.
        trusted_since: Since when this process has seen all of them with the authority; None while some lack it.
    """

    stored: Chain | None
    draft: Chain | None
    bundles: tuple[bytes, ...]
    trusted_since: datetime | None


class Draft(NamedTuple):
    """Make an authority, for a Secret that does not exist."""


class Create(NamedTuple):
    """Create the Secret from the draft."""


class Rotate(NamedTuple):
    """Store a new authority, and keep the certificate of the old one."""


class Publish(NamedTuple):
    """Write a bundle where another one is."""

    bundle: bytes


class Issue(NamedTuple):
    """Issue a certificate, and store it."""


class Forget(NamedTuple):
    """Drop expired authorities from the Secret."""


class Wait(NamedTuple):
    """Do nothing until something changes, or until then."""

    until: datetime


Step = Draft | Create | Rotate | Publish | Issue | Forget | Wait


def decide(observed: Observed, now: datetime) -> Step:
    """Return the next step.

    Args:
        observed: The stored and the trusted certificates.
        now: The moment to judge at.
    """
    if observed.stored is None:
        return _without_secret(observed, now)
    chain = observed.stored
    authority, serving = chain.authority, chain.serving
    # While a new authority waits for its turn, no other one is made, except for one that can issue nothing.
    if authority is None or not authority.is_valid(now) or (chain.is_current and authority.due <= now):
        return Rotate()
    if any(one.has_expired(now) for one in chain.previous):
        return Forget()
    if _has_to_issue(authority, chain, now):
        return Issue()
    if any(bundle != chain.bundle for bundle in observed.bundles):
        return Publish(chain.bundle)
    if serving is None or not chain.is_current:
        settled = _settled(observed, now)
        return Issue() if settled <= now else Wait(settled)
    return Wait(min(authority.due, serving.due, *(one.not_after for one in chain.previous)))


def _without_secret(observed: Observed, now: datetime) -> Step:
    """Decide while there is no Secret: the process that creates the Secret chooses the authority."""
    authority = observed.draft and observed.draft.authority
    if authority is None or not authority.is_valid(now) or authority.due <= now:
        return Draft()
    return Create()


def _has_to_issue(authority: Certificate, chain: Chain, now: datetime) -> bool:
    """Return whether to issue before all configurations trust the authority.

    A certificate by the authority of the served one is trusted as well. Otherwise the configurations that can be
    written do not wait endlessly for one that cannot.
    """
    serving = chain.serving
    if serving is None:
        return not chain.previous or now >= authority.not_before + _PATIENCE
    if chain.is_current:
        return not serving.is_valid(now) or serving.due <= now
    return now >= serving.after(_LAST_SHARE_OF_LIFE)


def _settled(observed: Observed, now: datetime) -> datetime:
    """Return when all API servers have seen that the newest authority is trusted."""
    return (observed.trusted_since or now) + SETTLE
