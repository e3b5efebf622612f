"""Mutations of requests: structures, types, sizes, bytes, encodings, queries, paths, headers, methods."""

import gzip
from random import Random
from typing import Any
from urllib.parse import quote

from kcr_devcluster.apiserver.server import HTTPRequest
from tests.chaos.mutations.valid_requests import Draft, ValidRequests, encoded, target
from tests.kit.invalid_requests import ACCEPTS, PARAMETERS, TEXTS, RequestMutator
from tests.kit.protobuf import PROTOBUF, varint

# At most so many of each; the first few lists are long, and such requests slow.
_MUTATIONS = (
    *("structure",) * 8, *("bytes",) * 4, *("query",) * 4, *("path",) * 2, *("headers",) * 2,
    "encoding", "method", "size", "kind",
)  # fmt: skip
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "CONNECT", "X" * 100, "")
_CODECS = ("utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-7")
_MEDIA = (
    "application/json", "application/yaml", PROTOBUF, "application/json;charset=utf-16", "application/json;stream=x",
    "application/apply-patch+yaml", "application/apply-patch+cbor", "application/cbor", "application/json-patch+json",
    "application/merge-patch+json", "application/strategic-merge-patch+json", "text/html", "multipart/form-data", ";",
    "a/b;c=\"d", "\xff", "application/json, application/yaml",
)  # fmt: skip
_HEADERS = (
    ("Content-Encoding", "gzip"), ("If-Match", "*"), ("User-Agent", "\xe9" * 200), ("User-Agent", ""), ("Accept", ""),
    ("Accept", "," * 500), ("Accept", "application/json;q=" + "9" * 50), ("Accept", "application/*;as=Table;v=v2;g=x"),
    ("Accept", f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"), ("Accept", f"{PROTOBUF};stream=watch"),
    ("Range", "bytes=0-1"), ("X-Forwarded-For", "x" * 3000), ("Accept-Encoding", "br;q=x"), ("Expect", "100-continue"),
)  # fmt: skip
_LONG = 200_000
_MANY = 3_000
# Sizes that a server refuses: its limit for bodies is 3 MiB, that for objects 1.5 MiB.
_TOO_LONG = (2_000_000, 3_200_000)


class MutatedRequests(RequestMutator):
    """Draws valid requests and mutates them."""

    def __init__(self, random: Random) -> None:
        super().__init__(0)
        self._random = random
        self.valid = ValidRequests(random)

    def request(self) -> HTTPRequest:
        """Return a request with up to three mutations."""
        draft = self.valid.draw()
        chosen = self._random.sample(_MUTATIONS, self._random.choice((0, 1, 1, 1, 2, 3)))
        if "structure" in chosen and draft.value is not None:
            for _ in range(self._random.randint(1, 3)):
                draft = draft._replace(value=self._spoil(draft.value))
        if "size" in chosen and draft.value is not None:
            draft = draft._replace(value=self._grown(draft.value))
        if "kind" in chosen and draft.value is not None:
            draft = draft._replace(value=self.valid.draw().value)
        if "query" in chosen:
            draft = draft._replace(query={**draft.query, **self._options()})
        return self._sent(draft, chosen)

    def _sent(self, draft: Draft, chosen: list[str]) -> HTTPRequest:
        draw = self._random
        media, body = encoded(draft.media, draft.value)
        if "encoding" in chosen:
            media, body = self._recoded(media, body)
        if "bytes" in chosen:
            body = self._garbled_message(body) if media == PROTOBUF else self._garbled(body)
        method = draw.choice(_METHODS) if "method" in chosen else draft.method
        path = self._odd_path(draft.path) if "path" in chosen else draft.path
        place = target(path, draft.query)
        if "query" in chosen and draw.random() < 0.3:
            place = path + self._query()
        headers = {"Accept": draft.accept, **({"Content-Type": media} if media else {})}
        if "headers" in chosen:
            name, value = draw.choice(
                (*_HEADERS, ("Accept", draw.choice(ACCEPTS)), ("Content-Type", draw.choice(_MEDIA)))
            )
            headers[name] = value
        return HTTPRequest(method, place, headers, body)

    def _options(self) -> dict[str, str]:
        draw = self._random
        found = {draw.choice(PARAMETERS): draw.choice(TEXTS) for _ in range(draw.randint(1, 3))}
        if draw.random() < 0.02:
            # No rule of the API refuses a query of this length.
            found["labelSelector"] = ",".join(f"k{n}=v" for n in range(_MANY))
        return found

    def _grown(self, value: Any) -> Any:
        """Return a value in which one thing is large."""
        if not isinstance(value, dict):
            return [value] * _MANY
        match self._random.choice(("text", "labels", "list", "nest", "key", "body")):
            case "text":
                value[self._random.choice(("x", "data"))] = {"a": "x" * _LONG}
            case "labels":
                self._label(value.get("metadata"))
            case "list":
                for inner in value.values():
                    self._repeat(inner)
            case "nest":
                value["spec"] = self._nested(value.get("spec"))
            case "key":
                value["k" * _LONG] = "v"
            case _ if self._random.random() < 0.1:
                value["data"] = {"a": "x" * self._random.choice(_TOO_LONG)}
        return value

    def _label(self, metadata: Any) -> None:
        if isinstance(metadata, dict):
            metadata[self._random.choice(("labels", "annotations"))] = {f"k{n}": "v" for n in range(_MANY)}

    def _nested(self, value: Any) -> Any:
        for _ in range(self._random.choice((90, 190, 210, 900))):
            value = {"a": [value]}
        return value

    def _repeat(self, value: Any) -> None:
        """Make one of the lists in a value long."""
        if not isinstance(value, dict):
            return
        for inner in value.values():
            if isinstance(inner, list) and inner:
                inner.extend(inner[:1] * _MANY)
                return
            self._repeat(inner)

    def _recoded(self, media: str, body: bytes) -> tuple[str, bytes]:
        draw = self._random
        match draw.choice(("codec", "codec", "gzip", "media", "media", "none")):
            case "codec":
                codec = draw.choice(_CODECS)
                return media, body.decode("utf-8", "replace").encode(codec, "replace")
            case "gzip":
                return media, gzip.compress(body, 1, mtime=0)
            case "media":
                return draw.choice(_MEDIA), body
        return "", body

    def _garbled_message(self, body: bytes) -> bytes:
        """Return a body of protobuf with other lengths, tags and ends in it."""
        draw, at = self._random, self._random.randrange(len(body) + 1)
        match draw.choice(("length", "tag", "flip", "cut", "repeat", "magic", "insert", "groups")):
            case "length":
                return body[:at] + varint(draw.choice((0, 127, 2**31, 2**63, -1))) + body[at + 1 :]
            case "tag":
                return body[:at] + varint(draw.choice((0, 7, 3, 4, 6, 2**29 << 3 | 2, 5))) + body[at + 1 :]
            case "flip":
                return (
                    body[:at] + bytes([body[at] ^ 1 << draw.randrange(8)]) + body[at + 1 :] if at < len(body) else body
                )
            case "cut":
                return body[:at]
            case "repeat":
                return body[:at] + body[at:] * 3
            case "magic":
                return draw.choice((b"k8s", b"k8s\x01", b"", b"K8S\x00")) + body[4:]
            case "insert":
                return body[:at] + draw.randbytes(draw.choice((1, 8, 300))) + body[at:]
        return body[:at] + b"\x0b" * 5_000 + body[at:]


def raw_http(request: HTTPRequest, token: str, random: Random) -> bytes:
    """Return a request as bytes of a connection, of which some may be wrong as well."""
    headers = {
        "Host": "127.0.0.1", "Authorization": f"Bearer {token}", "Connection": "close",
        "Content-Length": str(len(request.body)), **request.headers,
    }  # fmt: skip
    body = request.body
    match random.choice(("fine",) * 6 + ("length", "chunked", "line", "header", "token", "cut")):
        case "length":
            headers["Content-Length"] = random.choice(("-1", "x", "0", "99999999999999999999", str(len(body) + 10)))
        case "chunked":
            del headers["Content-Length"]
            headers["Transfer-Encoding"] = "chunked"
            body = random.choice((b"zz\r\n", b"5\r\nabc", b"0\r\n\r\n", b"fffffffffffffffff\r\n" + body))
        case "header":
            headers[random.choice(("X" * 9_000, "", "a b", "X\x00", "Content-Length "))] = "1"
        case "token":
            headers["Authorization"] = random.choice(("Bearer", "Basic x", "Bearer \xff\x00", "Bearer " + "x" * 8_000))
        case "line":
            return random.choice(
                (b"\r\n\r\n", b"GET /\r\n\r\n", b"\x16\x03\x01", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n")
            )
        case "cut":
            body = body[: len(body) // 2]
    where = quote(request.target.encode("utf-8", "surrogatepass"), safe="/?&=%") or "/"
    lines = [f"{request.method or 'GET'} {where} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
