"""Whether definitions and objects pass: they are created on an API server in this process, which tells what is wrong.

The server is empty but for the definitions, namespaces, accounts and classes among the documents. Objects are created
in a dry run, each by itself: objects of one name do not meet. Conversion webhooks are not called.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from http import HTTPStatus
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.resources import ResourceType
from kcr.client.wire.decoding import warnings_in
from kcr.clock import SystemClock
from kcr_devcluster.apiserver.kinds.catalogue import (
    ALL_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
)
from kcr_devcluster.apiserver.kinds.generic import STORED_ONLY
from kcr_devcluster.apiserver.kinds.served import kinds_in
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.apiserver.structural.checks import ROOT
from kcr_devcluster.kinds import reason_unestablished
from kcr_devcluster.manifests import Document
from kcr_devcluster.versions import KubernetesVersion

# Objects that others may name: they are stored, and come first.
_NAMED = ("Namespace", "ServiceAccount", "PriorityClass", "RuntimeClass", "StorageClass")
_CONFLICT = 409
_FIELD = re.compile(r'(unknown|duplicate) field "(.*)"')


class Finding(NamedTuple):
    """What the server says of a document.

    Attributes:
        document: The document.
        field: The path of the field, empty where it is none.
        message: The server's text.
        is_warning: Whether the server takes the document all the same.
    """

    document: Document
    field: str
    message: str
    is_warning: bool = False


class Checked(NamedTuple):
    """The outcome.

    Attributes:
        findings: Problems and warnings, in the order of the documents.
        definitions: How many definitions were checked.
        objects: How many objects were checked.
        unchecked: Objects whose definition has problems.
    """

    findings: tuple[Finding, ...]
    definitions: int
    objects: int
    unchecked: tuple[Document, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What keeps a document from passing."""
        return tuple(one for one in self.findings if not one.is_warning)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What it may pass with."""
        return tuple(one for one in self.findings if one.is_warning)


def check_documents(documents: Sequence[Document], version: KubernetesVersion) -> Checked:
    """Return what an API server says of documents: first of definitions, then of objects."""
    return asyncio.run(_Check(version).run(documents))


class _Check:
    """One run, on a server of its own."""

    def __init__(self, version: KubernetesVersion) -> None:
        clock, random = SystemClock(), Random()
        self._kinds = kinds_in((*ALL_KINDS, *VIEWS), version)
        self._server = APIServer(Storage(clock=clock), clock=clock, random=random, kinds=self._kinds, version=version)
        # The kinds of definitions that do not pass, by group and name.
        self._refused: set[tuple[str, str]] = set()

    async def run(self, documents: Sequence[Document]) -> Checked:
        positions = range(len(documents))
        definitions = [at for at in positions if _is_definition(documents[at])]
        objects = [at for at in positions if not _is_definition(documents[at])]
        findings = {at: await self._define(documents[at]) for at in definitions}
        unchecked = [at for at in objects if (_group(documents[at]), documents[at].kind) in self._refused]
        checked = [at for at in objects if at not in unchecked]
        for at in sorted(checked, key=lambda at: _rank(documents[at])):
            findings[at] = await self._create(documents[at])
        found = tuple(one for at in sorted(findings) for one in findings[at])
        return Checked(found, len(definitions), len(checked), tuple(documents[at] for at in unchecked))

    async def _define(self, document: Document) -> list[Finding]:
        """Create a definition."""
        manifest, spec = document.manifest, document.manifest.get("spec")
        type_, given = CUSTOM_RESOURCE_DEFINITIONS.type, spec if isinstance(spec, dict) else {}
        if given.get("conversion") in (None, {"strategy": "None"}):
            _, findings = await self._post(document, type_, manifest)
        else:
            # Objects are checked in the version that they are in, and the webhook need not run.
            _, findings = await self._post(document, type_, manifest, dry_run=True)
            if not any(not one.is_warning for one in findings):
                await self._post(document, type_, {**manifest, "spec": {**given, "conversion": {"strategy": "None"}}})
        if all(one.is_warning for one in findings) and (reason := self._reason_unserved(document)):
            findings.append(Finding(document, "", f"not served: {reason}"))
        if not all(one.is_warning for one in findings):
            names = given.get("names")
            kind = names.get("kind") if isinstance(names, dict) else None
            self._refused.add((str(given.get("group")), str(kind)))
        return findings

    def _reason_unserved(self, document: Document) -> str:
        name = document.manifest["metadata"]["name"]
        record = self._server.registry.storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        conditions = () if record is None else codec.decode(CustomResourceDefinition, record.data).status.conditions
        return reason_unestablished(conditions)

    async def _create(self, document: Document) -> list[Finding]:
        """Create an object."""
        api_version, metadata = document.manifest["apiVersion"], document.manifest["metadata"]
        types = [kind.type for kinds in (self._kinds, *self._server.definitions.served) for kind in kinds]
        found = next((one for one in types if (one.api_version, one.kind) == (api_version, document.kind)), None)
        if found is None:
            return [Finding(document, "", _unknown(document, types))]
        namespace = ""
        if found.namespaced:
            namespace = str(metadata.get("namespace") or "default")
            self._make_namespace(namespace)
        is_named = document.kind in _NAMED
        code, findings = await self._post(document, found, document.manifest, namespace, dry_run=not is_named)
        # What is there has been validated: a namespace that each cluster has, or one that comes twice.
        return [one for one in findings if one.is_warning] if is_named and code == _CONFLICT else findings

    def _make_namespace(self, name: str) -> None:
        """Make a namespace with its account, where they are missing; it is refused where it has no valid name."""
        registry = self._server.registry
        with suppress(StatusError):
            if registry.storage.get(NAMESPACES, "", name) is None:
                registry.create(NAMESPACES, "", {"metadata": {"name": name}})
            if registry.storage.get(SERVICE_ACCOUNTS, name, "default") is None:
                registry.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})

    async def _post(
        self, document: Document, kind: ResourceType, body: Mapping[str, Any], namespace: str = "", *,
        dry_run: bool = False,
    ) -> tuple[int, list[Finding]]:  # fmt: skip
        """Create an object; return the code and what the server says."""
        target = f"{kind.path(namespace)}?fieldValidation=Warn{'&dryRun=All' if dry_run else ''}"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        answer = await self._server.handle(HTTPRequest("POST", target, headers, msgspec.json.encode(body)))
        warnings = warnings_in(answer.headers.get("Warning", ""))
        findings = [_warning(document, text) for text in warnings if STORED_ONLY not in text]
        if answer.status >= HTTPStatus.BAD_REQUEST:
            assert isinstance(answer.body, bytes)  # only reads are streams
            status = msgspec.json.decode(answer.body)
            causes = (status.get("details") or {}).get("causes") or [{"message": status.get("message", "")}]
            findings += [_problem(document, one) for one in causes]
        return answer.status, findings


def _is_definition(document: Document) -> bool:
    type_ = CUSTOM_RESOURCE_DEFINITIONS.type
    return (document.manifest["apiVersion"], document.kind) == (type_.api_version, type_.kind)


def _group(document: Document) -> str:
    group, _, _ = str(document.manifest["apiVersion"]).rpartition("/")
    return group


def _rank(document: Document) -> int:
    return _NAMED.index(document.kind) if document.kind in _NAMED else len(_NAMED)


def _warning(document: Document, text: str) -> Finding:
    """Return a warning; one of an unknown field names it."""
    found = _FIELD.fullmatch(text)
    return Finding(document, found[2] if found else "", f"{found[1]} field" if found else text, is_warning=True)


def _problem(document: Document, cause: Mapping[str, str]) -> Finding:
    field = cause.get("field", "")
    return Finding(document, "" if field == ROOT else field, cause.get("message", ""))


def _unknown(document: Document, types: Sequence[ResourceType]) -> str:
    """Return why a kind is unknown, with the remedy."""
    api_version, group = document.manifest["apiVersion"], _group(document)
    others = [one.api_version for one in types if (one.group, one.kind) == (group, document.kind)]
    known = {one.kind.lower(): one.kind for one in types if one.api_version == api_version}
    near = get_close_matches(document.kind.lower(), known, 1, 0.8)
    remedy = f"is it {known[near[0]]}?" if near else "name the file of its CustomResourceDefinition, too"
    remedy = f"it is in {', '.join(others)}" if others else remedy
    return f"there is no kind {document.kind} in {api_version}: {remedy}"
