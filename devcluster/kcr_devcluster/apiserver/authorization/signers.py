"""Admission of CertificateSigningRequests: CertificateApproval, CertificateSigning, CertificateSubjectRestriction.

Approving needs the verb `approve` on the signer, signing the verb `sign`: on `signers` of `certificates.k8s.io` with
the name `example.com/signer` or `example.com/*`. The group `system:masters` cannot be requested.

Source: kubernetes/plugin/pkg/admission/certificates/{approval,signing,subjectrestriction}/admission.go;
pkg/registry/certificates/certificates/strategy.go, PrepareForCreate, PrepareForUpdate and populateConditionTimestamps.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authentication.users import MASTERS
from kcr_devcluster.apiserver.authorization.attributes import Attributes, quoted
from kcr_devcluster.apiserver.authorization.rbac import Authorizer
from kcr_devcluster.apiserver.kinds.access.certificates import APPROVED, CLIENT_SIGNER, DENIED, parse_request
from kcr_devcluster.apiserver.kinds.catalogue import CERTIFICATE_SIGNING_REQUESTS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.field_errors import forbidden as forbidden_field
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal, timestamp
from kcr_devcluster.apiserver.protocol.responses import forbidden, invalid

_TYPE = CERTIFICATE_SIGNING_REQUESTS.type
_ORGANIZATION = "2.5.4.10"


class CertificateGuard(NamedTuple):
    """Checks a certificate signing request before it is stored, and sets the fields that the server fills in.

    Attributes:
        user: Who writes it.
        authorizer: Decides whether he may approve and sign.
        subresource: Through which he writes it.
        now: The time.
    """

    user: User
    authorizer: Authorizer
    subresource: str
    now: datetime

    def check(self, new: Manifest, old: Manifest | None) -> None:
        """Prepare the object to store.

        Args:
            new: It, with its defaults; it is changed in place.
            old: The stored object; None on create.

        Raises:
            StatusError: 403 or 422, the user may not write it so.
        """
        if old is None:
            self._create(new)
        elif self.subresource == "approval":
            self._require("approve", old)
            conditions = (new.get("status") or {}).get("conditions") or []
            new["status"] = {**(old.get("status") or {}), "conditions": conditions}
            self._set_times(new, old)
        elif self.subresource == "status":
            self._check_status(new, old)
            self._set_times(new, old)

    def _create(self, new: Manifest) -> None:
        spec = {name: value for name, value in new["spec"].items() if name not in User._fields}
        new["spec"] = {**spec, **self.user.info}
        if spec.get("signerName") == CLIENT_SIGNER and MASTERS in _groups(spec.get("request") or ""):
            why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise forbidden(_TYPE, new["metadata"].get("name", ""), why)

    def _check_status(self, new: Manifest, old: Manifest) -> None:
        status, before = new.get("status") or {}, old.get("status") or {}
        if any(not semantic_equal(status.get(name), before.get(name)) for name in ("certificate", "conditions")):
            self._require("sign", old)
        if errors := _approval_changes(status.get("conditions") or [], before.get("conditions") or []):
            raise invalid(_TYPE.kind, _TYPE.group, old["metadata"]["name"], errors)

    def _require(self, verb: str, request: Manifest) -> None:
        signer: str = request["spec"]["signerName"]
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            wanted = Attributes(verb, _TYPE.group, "signers", name=name)
            if self.authorizer.authorize(self.user, wanted).is_allowed:
                return
        why = f"user not permitted to {verb} requests with signerName {quoted(signer)}"
        raise forbidden(_TYPE, request["metadata"]["name"], why)

    def _set_times(self, new: Manifest, old: Manifest) -> None:
        now = timestamp(self.now)
        before = {(one["type"], one.get("status")): one for one in (old.get("status") or {}).get("conditions") or ()}
        for condition in (new.get("status") or {}).get("conditions") or ():
            had = before.get((condition.get("type", ""), condition.get("status")), {})
            if not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = had.get("lastTransitionTime") or now
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = now


# The kinds whose writes are checked with the rights of their user, and by whom.
GUARDS: Mapping[Kind, type[CertificateGuard]] = {CERTIFICATE_SIGNING_REQUESTS: CertificateGuard}


def _groups(encoded: str) -> list[str]:
    """Return the groups that a request asks for; none of an invalid one, which is refused for that."""
    try:
        request = parse_request(encoded)
    except ValueError:
        return []
    return (
        [str(one.value) for one in request.subject if one.oid.dotted_string == _ORGANIZATION]
        if request is not None
        else []
    )


def _approval_changes(new: list[Manifest], old: list[Manifest]) -> list[FieldError]:
    """Return the field errors of conditions that only `/approval` may change; their removal is an error of its own."""
    errors = []
    for name in (APPROVED, DENIED):
        now, before = ([one for one in found if one.get("type") == name] for found in (new, old))
        if len(now) > len(before):
            errors.append(f'updates may not add a condition of type "{name}"')
        elif len(now) == len(before) and not semantic_equal(now, before):
            errors.append(f'updates may not modify a condition of type "{name}"')
    return [forbidden_field("status.conditions", why) for why in errors]
