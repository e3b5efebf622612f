"""Metrics of webhook calls, under upstream's names.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/metrics/metrics.go.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.table import Histogram

_SECONDS = (.005, .025, .1, .5, 1, 2.5, 10, 25)  # fmt: skip
_PREFIX = "apiserver_admission_webhook"
_LABELS = ("name", "type", "operation", "rejected")
_CONVERSION_SECONDS = tuple(0.001 * 2**power for power in range(15))


class CallLabels(NamedTuple):
    """The labels that distinguish calls.

    Attributes:
        name: The name of the webhook.
        type: `admit` or `validating`.
        operation: Such as `CREATE`.
    """

    name: str
    type: str
    operation: str


class ConversionLabels(NamedTuple):
    """The labels that distinguish conversions.

    Attributes:
        crd_name: The name of the definition.
        from_version: The version of the objects that were sent.
        to_version: The version that was wanted.
        succeeded: Whether the webhook converted them.
    """

    crd_name: str
    from_version: str
    to_version: str
    succeeded: bool


class AdmissionMetrics:
    """Counts calls of webhooks."""

    def __init__(self) -> None:
        # By labels, and whether the request was rejected.
        self._durations: dict[tuple[CallLabels, bool], Histogram] = {}
        self._requests: Counter[tuple[CallLabels, bool, int]] = Counter()
        self._rejections: Counter[tuple[CallLabels, str, int]] = Counter()
        self._open: Counter[tuple[str, str]] = Counter()
        self._conversions: dict[ConversionLabels, Histogram] = {}

    def observe(self, labels: CallLabels, seconds: float, code: int, error_type: str, *, ignored: bool) -> None:
        """Count a call.

        Args:
            labels: Its labels.
            seconds: How long it took.
            code: 200, the code of the denial, or that of the failure.
            error_type: `""` where the webhook admits the request, `no_error` where it denies it, else the failure.
            ignored: Whether the call failed, and the request continues all the same.
        """
        rejected = bool(error_type) and not ignored
        durations = self._durations.setdefault((labels, rejected), Histogram(_SECONDS))
        durations.observe(seconds)
        self._requests[labels, rejected, code] += 1
        if ignored:
            self._open[labels.name, labels.type] += 1
        elif error_type:
            # Codes beyond those of HTTP are one series.
            self._rejections[labels, error_type, min(code, 600)] += 1

    def observe_conversion(self, labels: ConversionLabels, seconds: float) -> None:
        """Count a call of a conversion webhook.

        Args:
            labels: Its labels.
            seconds: How long it took.
        """
        self._conversions.setdefault(labels, Histogram(_CONVERSION_SECONDS)).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; none before the first call."""
        if self._conversions:
            yield self._conversion_durations()
        if self._requests:
            yield from self._admissions()

    def _conversion_durations(self) -> Metric:
        """Return the durations of conversions.

        Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/metrics.go.
        """
        durations = HistogramMetricFamily(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "CRD webhook conversion duration in seconds",
            labels=ConversionLabels._fields,
        )
        for labels, histogram in self._conversions.items():
            histogram.add_to(durations, (*labels[:3], _text(labels.succeeded)))
        return durations

    def _admissions(self) -> Iterator[Metric]:
        durations = HistogramMetricFamily(
            f"{_PREFIX}_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and "
            "API resource and type (validate or admit).",
            labels=_LABELS,
        )
        for (labels, rejected), histogram in self._durations.items():
            histogram.add_to(durations, (*labels, _text(rejected)))
        yield durations
        requests = CounterMetricFamily(
            f"{_PREFIX}_request",
            "Admission webhook request total, identified by name and broken out for each admission type (validating or "
            "mutating) and operation. Additional labels specify whether the request was rejected or not and an HTTP "
            "status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
            labels=(*_LABELS, "code"),
        )
        for (labels, rejected, code), count in self._requests.items():
            requests.add_metric((*labels, _text(rejected), str(min(code, 600))), count)
        yield requests
        yield from self._failures()

    def _failures(self) -> Iterator[Metric]:
        # Upstream's name has no `_total`, which a counter's family would add.
        rejections = _Plain(
            f"{_PREFIX}_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type (validating "
            "or admit) and operation. Additional labels specify an error type (calling_webhook_error or "
            "apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection "
            "code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code "
            "is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality "
            "bounded.",
            "counter",
        )
        names = ("name", "type", "operation", "error_type", "rejection_code")
        for (labels, error_type, code), count in self._rejections.items():
            values = (*labels, error_type, str(code))
            rejections.add_sample(rejections.name, dict(zip(names, values, strict=True)), count)
        yield rejections
        failing_open = _Plain(
            f"{_PREFIX}_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type (validating "
            "or admit).",
            "counter",
        )
        for (name, type_), count in self._open.items():
            failing_open.add_sample(failing_open.name, {"name": name, "type": type_}, count)
        yield failing_open


class _Plain(Metric):
    """A family whose samples have the name of the family."""


def _text(truth: bool) -> str:
    return "true" if truth else "false"
