"""What the server counts, as Prometheus reads it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from viewkeeper.outcomes import Commit

if TYPE_CHECKING:
    from viewkeeper.serve.service import Service

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Histogram:
    """How many took up to how long."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str) -> list[str]:
        found, total = [f"# TYPE {name} histogram"], 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*found, f"{name}_sum {self.sum:.6f}", f"{name}_count {total}"]


class Metrics:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.started = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.commits = self.repeated = self.rows = 0
        self.events = self.bytes = self.catch_ups = self.stalled = 0
        self.seconds = Histogram()

    def committed(self, commit: Commit) -> None:
        if commit.repeated:
            self.repeated += 1
        elif commit.number is not None:
            self.commits += 1
            self.rows += sum(c.inserted_rows + c.deleted_rows for c in commit.changes.values())
            self.seconds.add(commit.seconds)

    def sent(self, size: int, events: int = 1) -> None:
        self.events += events
        self.bytes += size

    def text(self) -> str:
        """All of it."""
        service = self.service
        gauges = {
            "last_commit": service.last,
            "subscribers": len(service.streams.open),
            "feeds": len(service.hub.feeds),
            "changes_waiting": service.waiting,
            "start_time_seconds": round(self.started),
        }
        counters = {
            "commits_total": self.commits,
            "commits_repeated_total": self.repeated,
            "changed_rows_total": self.rows,
            "events_sent_total": self.events,
            "event_bytes_sent_total": self.bytes,
            "subscriber_catch_ups_total": self.catch_ups,
            "subscribers_cut_off_total": self.stalled,
            "feed_log_reads_total": service.hub.log_reads,
        }
        lines = []
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in values.items():
                lines += [f"# TYPE viewkeeper_{name} {kind}", f"viewkeeper_{name} {value}"]
        lines += self.seconds.lines("viewkeeper_commit_seconds")
        lines.append("# TYPE viewkeeper_requests_total counter")
        for (method, route, status), count in sorted(self.requests.items()):
            lines.append(f'viewkeeper_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
        return "\n".join(lines) + "\n"
