"""
In a process of its own: what importing modules takes, beyond what is there already.

``python -m benchmarks.imported FIRST MODULE ...`` prints it as JSON. ``FIRST`` is code that is run
before, and not counted.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

from benchmarks.process import MEGABYTE, resident


def main(first: str, wanted: list[str]) -> None:
    exec(first, {})
    before, held = set(sys.modules), resident(os.getpid())
    started, used = time.perf_counter(), time.process_time()
    for name in wanted:
        importlib.import_module(name)
    used, seconds = time.process_time() - used, time.perf_counter() - started
    more = sorted(set(sys.modules) - before)
    megabytes = (resident(os.getpid()) - held) / MEGABYTE
    print(json.dumps({"ms": seconds * 1000, "cpu": used * 1000, "mb": megabytes, "modules": more}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
