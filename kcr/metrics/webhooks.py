"""Metrics of webhooks.

Source: controller-runtime/pkg/webhook/internal/metrics/metrics.go,
controller-runtime/pkg/webhook/{admission,conversion}/metrics/metrics.go,
controller-runtime/pkg/certwatcher/metrics/metrics.go.
"""

from collections import Counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from kcr.metrics.table import Histogram, Row

# From 10 ns, each ten times the one before.
WEBHOOK_BUCKETS = tuple(10.0 ** (exponent - 8) for exponent in range(12))


class WebhookMetrics:
    """The metrics of one webhook, which its path names.

    Attributes:
        seconds: How long requests took.
        codes: Requests by HTTP status code. The most likely ones exist from the start, at 0.
        in_flight: Requests that are served just now.
    """

    def __init__(self) -> None:
        self.seconds: Histogram = Histogram(WEBHOOK_BUCKETS)
        self.codes: Counter[str] = Counter({"200": 0, "500": 0})
        self.in_flight = 0


class WebhookPanics:
    """Unexpected exceptions of all webhooks of a process.

    Attributes:
        admission: Those of defaulters and validators.
        conversion: Those of conversions.
    """

    def __init__(self) -> None:
        self.admission = 0
        self.conversion = 0


WEBHOOK_ROWS = (
    Row(
        HistogramMetricFamily, "controller_runtime_webhook_latency_seconds",
        "Histogram of the latency of processing admission requests", lambda webhook: webhook.seconds,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_webhook_requests",
        "Total number of admission requests by HTTP status code.", lambda webhook: webhook.codes, label="code",
    ),
    Row(
        GaugeMetricFamily, "controller_runtime_webhook_requests_in_flight",
        "Current number of admission requests being served.", lambda webhook: webhook.in_flight,
    ),
)  # fmt: skip
PANIC_ROWS = (
    Row(
        CounterMetricFamily, "controller_runtime_webhook_panics", "Total number of webhook panics",
        lambda panics: panics.admission,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_conversion_webhook_panics",
        "Total number of conversion webhook panics", lambda panics: panics.conversion,
    ),
)  # fmt: skip
CERTIFICATE_ROWS = (
    Row(
        CounterMetricFamily, "certwatcher_read_certificate", "Total number of certificate reads",
        lambda certificate: certificate.reads,
    ),
    Row(
        CounterMetricFamily, "certwatcher_read_certificate_errors", "Total number of certificate read errors",
        lambda certificate: certificate.errors,
    ),
)  # fmt: skip
