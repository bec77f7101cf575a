"""Commands that start processes of their own, ended from outside."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress


def end_with_workers(words, folder):
    """Run a command until it has a worker, end it by SIGTERM, see that both are gone, and return what it said.

    A worker that goes on alone would take a core from whoever comes next, and note what nobody asked for.
    """
    program = [sys.executable, "-m", "hotvae", *words]
    process = subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        give_up = time.monotonic() + 600  # a busy machine takes its time to start two processes
        while len(_in_group(process.pid)) < 2 and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.2)
        assert len(_in_group(process.pid)) == 2
        process.terminate()
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 130
        assert _in_group(process.pid) == []
        return said
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _in_group(group):
    """Numbers of the processes of a group that are still running."""
    told = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in told.splitlines()]
    return [int(number) for number, of, state in rows if int(of) == group and not state.startswith("Z")]
