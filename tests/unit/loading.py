"""Which modules some code loads, in an interpreter that has loaded others before."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

AIRFLOW = (
    "import airflow.sdk, airflow.exceptions, airflow.triggers.base\n"
    "import airflow.providers.common.compat.sdk as compat\n"
    "compat.AirflowException, compat.BaseHook, compat.conf\n"
)
SERVE = """
import json, os, sys, traceback

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
exec({first!r}, {{}})
for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    error, before = None, set(sys.modules)
    try:
        exec(json.loads(line), {{}})
    except Exception:
        error = traceback.format_exc()
    print(json.dumps([sorted(set(sys.modules) - before), error]), file=answers, flush=True)
    os._exit(0)
"""
"""Runs each line of its input in a fork of its own, as importing Airflow anew takes seconds."""


def modules_of(code: str, after: str = "") -> set[str]:
    """The modules that an interpreter loads for this code, beyond those of the code that it ran before."""
    server = _server(after)
    server.stdin.write(json.dumps(code) + "\n")
    server.stdin.flush()
    modules, error = json.loads(server.stdout.readline())
    assert error is None, error
    return set(modules)


@cache
def _server(first: str) -> Any:
    """An interpreter that ends with this process, as its input does."""
    code = SERVE.format(first=first)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
