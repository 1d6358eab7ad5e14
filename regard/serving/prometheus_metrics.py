"""Metrics for Prometheus, in a registry of their own; no label identifies a client or a text."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from regard.documents.document_translation import DocumentTranslation
from regard.serving.models import Models
from regard.serving.service import ServedText

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0)


class Metrics:
    """Counters of requests, texts and documents; gauges of open requests and of lines that wait."""

    def __init__(self, service: Models) -> None:
        # The series `*_created` double the number of series and say little.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._requests = self._counter(
            "requests", "Requests answered", "route", "method", "status"
        )
        self._seconds = Histogram(
            "regard_request_duration_seconds",
            "Seconds from a request to the end of its answer",
            ("route", "method"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "regard_requests_in_flight",
            "Requests being answered",
            registry=self.registry,
        )
        depth = Gauge(
            "regard_queue_depth", "Lines that wait for a model", registry=self.registry
        )
        depth.set_function(lambda: sum(lines for lines, _ in service.backlog.values()))
        self._texts = self._counter("texts", "Texts translated", "source", "target")
        self._characters = self._counter(
            "characters", "Characters of translated texts", "source", "target"
        )
        self._tokens = self._counter(
            "tokens", "Tokens of translations", "source", "target"
        )
        self._documents = self._counter(
            "documents", "Documents translated", "source", "target"
        )

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"regard_{name}", description, labels, registry=self.registry)

    def count_request(
        self, route: str, method: str, status: int, seconds: float
    ) -> None:
        """Count an answered request.

        The number of label values is bounded: `route` is a path as declared, never as sent, and
        `method` one of a fixed set.
        """
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def count_texts(self, texts: Sequence[str], results: Sequence[ServedText]) -> None:
        """Count translated texts by the languages of the models, of which there are few."""
        for text, result in zip(texts, results, strict=True):
            if result.model is None:
                continue
            labels = (result.source, result.target)
            self._texts.labels(*labels).inc()
            self._characters.labels(*labels).inc(len(text))
            tokens = sum(len(line.hypotheses[0].tokens) for line in result.lines or ())
            self._tokens.labels(*labels).inc(tokens)

    def count_document(
        self, source: str, target: str, result: DocumentTranslation
    ) -> None:
        """Count a translated document, and its texts."""
        self._documents.labels(source, target).inc()
        self._texts.labels(source, target).inc(result.texts)
        self._characters.labels(source, target).inc(result.characters)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
