"""Answers to DNS requests for names of the cluster's domain.

Source: RFC 1035, RFC 2782; github.com/coredns/coredns/plugin/kubernetes.
"""

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from kcr_devcluster.cluster.names.records import DOMAIN, Found, Names, look_up

_TTL_SECONDS = 5
# Without EDNS. A larger answer is asked for again by TCP.
_DATAGRAM_BYTES = 512
_LARGEST = 65_535


class Request:
    """A request that can be read."""

    def __init__(self, query: dns.message.Message) -> None:
        self._query = query
        self._question = query.question[0]
        self._name = self._question.name.to_text(omit_final_dot=True).lower()

    @property
    def is_for_cluster(self) -> bool:
        """Whether it is for a name of the cluster's domain."""
        return f".{self._name}".endswith(f".{DOMAIN}")

    def answer(self, names: Names) -> dns.message.Message:
        """Return the answer for a name of the cluster's domain."""
        response = dns.message.make_response(self._query, recursion_available=True)
        response.flags |= dns.flags.AA
        found = look_up(names, self._name)
        if found is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif texts := _texts(found, self._question.rdtype):
            kind, values = texts
            response.answer.append(dns.rrset.from_text_list(self._question.name, _TTL_SECONDS, "IN", kind, values))
        return response

    def failure(self) -> dns.message.Message:
        """Return the answer where no server answers."""
        response = dns.message.make_response(self._query, recursion_available=True)
        response.set_rcode(dns.rcode.SERVFAIL)
        return response

    def encode(self, response: dns.message.Message, *, is_datagram: bool) -> bytes:
        """Return an answer as it is sent; one that is too large for a datagram says so, and is empty."""
        try:
            return response.to_wire(max_size=max(self._query.payload, _DATAGRAM_BYTES) if is_datagram else _LARGEST)
        except dns.exception.TooBig:
            short = dns.message.make_response(self._query, recursion_available=True)
            short.flags |= dns.flags.TC
            return short.to_wire()


def read_request(data: bytes) -> Request | None:
    """Return a request, None for what is none."""
    try:
        query = dns.message.from_wire(data)
    except (dns.exception.DNSException, ValueError):
        return None
    return None if query.flags & dns.flags.QR or len(query.question) != 1 else Request(query)


def _texts(found: Found, wanted: dns.rdatatype.RdataType) -> tuple[str, list[str]] | None:
    """Return kind and values of the records of a kind; None for none."""
    if found.external:
        return "CNAME", [f"{found.external.rstrip('.')}."]
    if wanted == dns.rdatatype.A and found.addresses:
        return "A", list(found.addresses)
    if wanted == dns.rdatatype.SRV and found.services:
        return "SRV", [f"0 100 {port} {target}." for port, target in found.services]
    return None
