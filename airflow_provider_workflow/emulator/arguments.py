"""
The options of the emulator as data: flags, and what ``argparse`` is told of them.

Apart from what reads them, so that a command line can offer them without loading the service.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

DEFAULT_PORT = 8765

ARGUMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--host", {"default": "127.0.0.1", "help": "address to listen on (default: %(default)s)"}),
    (
        "--port",
        {"type": int, "default": DEFAULT_PORT, "help": "0 picks a free port (default: %(default)s)"},
    ),
    ("--state", {"type": Path, "metavar": "FILE", "help": "keep the state in this SQLite file"}),
    (
        "--quarantine-after",
        {"type": int, "default": 5, "metavar": "N", "help": "leases of a message (default: %(default)s)"},
    ),
    (
        "--initializing-seconds",
        {"type": float, "default": 0, "metavar": "S", "help": "of a new inbox (default: %(default)s)"},
    ),
    (
        "--inbox",
        {
            "action": "append",
            "default": [],
            "metavar": "NAME",
            "help": "create this inbox, active, if it is missing",
        },
    ),
)
