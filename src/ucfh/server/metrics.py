"""Prometheus metrics of requests, groups of calls, plans and tasks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ucfh.tasks.status import TaskStatus

MOST_TASKS = 100
"""Largest number of listed tasks, the first by creation."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
PLAN_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
COUNTED = {
    "decisions": "decisions taken",
    "outcomes": "known outcomes",
    "lost": "missing outcomes",
    "late": "outcomes that came too late",
    "faults": "rejected reports and late outcomes that are kept",
    "conflicts": "outcomes with contradictory reports",
}
SHOWN = {
    "open": "open episodes",
    "waiting": "decisions without an outcome",
    "states": "known states",
    "policy": "number of the newest policy",
    "age": "seconds since the newest policy was made",
    "gap": "optimality gap of the policy",
    "certified": "1 if the policy is certified",
    "refuted": "1 if the assumptions are refuted",
}


class Metrics:
    """The metrics of this process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "ucfh_requests", "requests answered", ("route", "method", "status"), registry=registry
        )
        self._took = Histogram(
            "ucfh_request_seconds", "time to answer", ("route",), buckets=SECONDS, registry=registry
        )
        self.groups = Histogram(
            "ucfh_group_calls", "calls written with one commit", buckets=GROUPS, registry=registry
        )
        self.planned = Histogram(
            "ucfh_plan_seconds", "time to plan", buckets=PLAN_SECONDS, registry=registry
        )
        self._failures = Counter(
            "ucfh_plan_failures", "plans that failed", ("kind",), registry=registry
        )
        self._labeled: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._viewers = Gauge("ucfh_viewers", "pages that watch", registry=registry)

    def count(self, route: str, method: str, status: int, took: float) -> None:
        """Count a request."""
        if (counters := self._labeled.get((route, method, status))) is None:
            counters = self._requests.labels(route, method, str(status)), self._took.labels(route)
            self._labeled[route, method, status] = counters
        counters[0].inc()
        counters[1].observe(took)

    def failed(self, error: Exception) -> None:
        """Count a failed plan."""
        self._failures.labels(type(error).__name__).inc()

    def text(self, tasks: list[TaskStatus], viewers: int) -> bytes:
        """Return all metrics in the format of Prometheus."""
        self._viewers.set(viewers)
        statuses = CollectorRegistry()
        statuses.register(_Statuses(tasks[:MOST_TASKS]))
        return generate_latest(self._registry) + generate_latest(statuses)


class _Statuses:
    """A collector of the status of tasks."""

    def __init__(self, tasks: list[TaskStatus]) -> None:
        self._tasks = tasks

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield a metric family for each field."""
        for fields, family in ((COUNTED, CounterMetricFamily), (SHOWN, GaugeMetricFamily)):
            for name, description in fields.items():
                made = family(f"ucfh_task_{name}", description, labels=["task"])
                for status in self._tasks:
                    if (value := getattr(status, name)) is not None:
                        made.add_metric([status.task], value)
                yield made
