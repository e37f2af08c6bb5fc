"""Measures and writes docs/benchmarks.md: ``make bench``."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.closure import ROWS, SUBJECTS
from bench.report import Result, write


def main() -> None:
    results = []
    for subject in SUBJECTS:
        print(f"measuring {subject} …", flush=True)
        done = subprocess.run([sys.executable, "-m", "bench.closure", subject], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{subject} failed:\n{done.stdout}{done.stderr}")
        result = Result(subject, **json.loads(done.stdout.splitlines()[-1]))
        if result.rows != ROWS:
            sys.exit(f"{subject} gave {result.rows:,} rows, not {ROWS:,}")
        print(f"  {result.median:.1f} s, {result.peak_mb:,} MB", flush=True)
        results.append(result)
    print(f"written to {write(results)}")


if __name__ == "__main__":
    main()
