"""Peak memory of this process and those it started."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil


class PeakMemory:
    """Samples resident memory in the background: ``with PeakMemory() as peak: …; peak.megabytes``."""

    def __init__(self, every: float = 0.05) -> None:
        self.every, self.megabytes = every, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        this = psutil.Process()
        while not self._stop.wait(self.every):
            total = 0
            for process in [this, *this.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self.megabytes = max(self.megabytes, total // 2**20)
