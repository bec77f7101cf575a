"""What long jobs cost in time and memory: maps, eBird files, long tables."""

import re
from contextlib import suppress
from pathlib import Path


def resident_bytes(field):
    """Read ``VmRSS`` (now) or ``VmHWM`` (most so far) of this process; None where Linux does not tell."""
    with suppress(OSError):
        found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024
    return None
