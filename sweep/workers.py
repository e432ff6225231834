"""Where runs execute: processes on this machine, or Ray actors on a cluster (see ray_workers), one interface."""

from __future__ import annotations

import mmap
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Any

from . import machine

#: Tasks that one worker can hold: the one it runs, and those that wait so that it never does.
DEPTH = 2
#: A worker is given up when a run lasts this many times its cap, plus these seconds, of wall time.
HANGS_AFTER, HANGS_SECONDS = 3.0, 30.0
#: Set before a library reads them: one run, one core.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                     "VECLIB_MAXIMUM_THREADS")}


class WorkerError(RuntimeError):
    """No worker can be started; the message is one line for the user."""


@dataclass
class Finished:
    """A task that ended. `run` is what `trainers.execute` gave, None where it was cancelled before it began."""

    key: int
    run: Any
    worker: str
    cpu_seconds: float = 0.0  # of the worker's process, outside training, since the last task ended
    elapsed_seconds: float = 0.0  # wall, from the end of the last task (or its arrival) to this one's


@dataclass(eq=False)
class _Worker:
    index: int
    process: subprocess.Popen
    pipe: Connection
    lifeline: int  # the worker ends when this end of a pipe is closed, by us or by our death
    control: memoryview  # float64[DEPTH][2]: the cap in CPU seconds and whether to stop, of each slot
    ready: bool = False
    tasks: deque = field(default_factory=deque)  # in the order they will run
    since: float = 0.0  # when the first of them began, as far as we know


class LocalPool:
    """Processes on this machine that live as long as the pool, each pinned to a core."""

    def __init__(self, size: int | None = None):
        cores = machine.cores()
        self.size = size or len(cores)
        self._cores = cores
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._failed_starts = 0
        self._finished: list[Finished] = []
        self._slots: dict[int, tuple[_Worker, int]] = {}  # key -> where its control stands
        self._workers = [self._start(i) for i in range(self.size)]

    # -- what both kinds of pool do ---------------------------------------------------------------------

    def room(self, depth: int = 1) -> int:
        """How many more tasks keep every worker supplied with `depth` of them."""
        return sum(max(0, depth - len(w.tasks)) for w in self._workers)

    def submit(self, task: dict) -> None:
        """The least busy worker gets the task; its end is told by `wait`."""
        self._send(min(self._workers, key=lambda w: len(w.tasks)), task)

    def lower_cap(self, key: int, cap_seconds: float) -> None:
        """A task, running or waiting, may now use only this many CPU seconds."""
        if key in self._slots:
            worker, slot = self._slots[key]
            worker.control[2 * slot] = min(worker.control[2 * slot], cap_seconds)

    def cancel(self, key: int) -> None:
        """A task ends as soon as it looks up, or never begins; `wait` still tells of it."""
        if key in self._slots:
            worker, slot = self._slots[key]
            worker.control[2 * slot + 1] = 1.0

    def cancel_waiting(self) -> None:
        """No task begins that has not begun yet."""
        for worker in self._workers:
            for task in list(worker.tasks)[1:]:
                self.cancel(task["key"])

    def wait(self, timeout: float | None = None) -> list[Finished]:
        """Sleeps until a task ends, `wake` is called, or `timeout` seconds are over; what ended since the last call."""
        now = time.monotonic()
        deadlines = [d for w in self._workers if (d := self._deadline(w)) is not None]
        if deadlines:
            timeout = max(0.0, min([d - now for d in deadlines] + ([timeout] if timeout is not None else [])))
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._drain_wake()
            else:
                self._receive(key.data)
        for worker in list(self._workers):
            deadline = self._deadline(worker)
            if deadline is not None and deadline <= time.monotonic():
                worker.process.kill()
                self._replace(worker, "no end in sight: killed after "
                              f"{time.monotonic() - worker.since:.0f} s with a cap of {worker.tasks[0]['cap_seconds']:g} s")
        finished, self._finished = self._finished, []
        return finished

    def wake(self) -> None:
        """`wait` returns at once; safe to call from a signal handler."""
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Every worker ends now, whatever it does."""
        self._selector.close()
        for worker in self._workers:
            os.close(worker.lifeline)
            worker.pipe.close()
        for worker in self._workers:
            try:
                worker.process.wait(2)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._workers = []
        os.close(self._wake_read)
        os.close(self._wake_write)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()

    # -- processes --------------------------------------------------------------------------------------

    def _start(self, index: int) -> _Worker:
        ours, theirs = Pipe()
        lifeline_read, lifeline_write = os.pipe()
        with tempfile.TemporaryFile() as shared:
            shared.truncate(16 * DEPTH)
            block = mmap.mmap(shared.fileno(), 16 * DEPTH)
            core = self._cores[index % len(self._cores)] if self.size <= len(self._cores) else -1
            inherited = (theirs.fileno(), lifeline_read, shared.fileno())
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from sweep.workers import main; main{(*inherited, core)}"],
                pass_fds=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
            )
        theirs.close()
        os.close(lifeline_read)
        worker = _Worker(index, process, ours, lifeline_write, memoryview(block).cast("d"))
        self._selector.register(ours, selectors.EVENT_READ, worker)
        return worker

    def _send(self, worker: _Worker, task: dict) -> None:
        taken = {self._slots[t["key"]][1] for t in worker.tasks}
        slot = next(s for s in range(DEPTH) if s not in taken)
        worker.control[2 * slot : 2 * slot + 2] = memoryview(_doubles(task["cap_seconds"], 0.0))
        self._slots[task["key"]] = (worker, slot)
        if not worker.tasks:
            worker.since = time.monotonic()
        worker.tasks.append(task)
        try:
            worker.pipe.send((slot, task))
        except OSError:
            pass  # it died just now; `wait` will notice

    def _receive(self, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._replace(worker, None)
        if message[0] == "ready":
            worker.ready, self._failed_starts = True, 0
            worker.since = time.monotonic()
            return None
        if message[0] == "failed":
            raise WorkerError(f"a worker cannot start: {message[1]}")
        _, key, run, cpu_seconds = message
        now = time.monotonic()
        task = worker.tasks.popleft()
        assert task["key"] == key
        del self._slots[key]
        self._finished.append(Finished(key, run, f"local/{worker.index}", cpu_seconds, now - worker.since))
        worker.since = now
        return None

    def _replace(self, worker: _Worker, reason: str | None) -> None:
        """A dead worker costs the run it was in; what waited behind it goes to its successor."""
        os.close(worker.lifeline)
        self._selector.unregister(worker.pipe)
        worker.pipe.close()
        try:
            code = worker.process.wait(5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        reason = reason or f"the worker died ({_how(code)})"
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= 3:
                raise WorkerError(f"workers die while they start: {reason}")
        successor = self._start(worker.index)
        self._workers[self._workers.index(worker)] = successor
        tasks = list(worker.tasks)
        for task in tasks:
            stopped = worker.control[2 * self._slots[task["key"]][1] + 1]
            del self._slots[task["key"]]
            if task is tasks[0] and worker.ready:
                from .trainers import crashed

                run = crashed(task["seed"], reason, time.monotonic() - worker.since)
                self._finished.append(Finished(task["key"], run, f"local/{worker.index}"))
            else:
                self._send(successor, task)
                if stopped:
                    self.cancel(task["key"])

    def _deadline(self, worker: _Worker) -> float | None:
        if not worker.tasks or not worker.ready:
            return None
        task = worker.tasks[0]
        return worker.since + HANGS_AFTER * task["cap_seconds"] + HANGS_SECONDS

    def _drain_wake(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass


def main(pipe_fd: int, lifeline_fd: int, control_fd: int, core: int) -> None:
    """The life of a worker process: take a task, run it, send back what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's business
    threading.Thread(target=_end_with_coordinator, args=(lifeline_fd,), daemon=True).start()
    if core >= 0:
        machine.pin(core)
    pipe = Connection(pipe_fd)
    try:
        import numpy as np

        from . import trainers

        controls = np.frombuffer(mmap.mmap(control_fd, 16 * DEPTH), dtype=np.float64).reshape(DEPTH, 2)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the coordinator must say it
        pipe.send(("failed", f"{type(problem).__name__}: {problem}"))
        return
    pipe.send(("ready",))
    used = 0.0  # CPU seconds of this process that are accounted for; what it took to start counts as platform
    while True:
        try:
            slot, task = pipe.recv()
        except EOFError:
            return
        control = controls[slot]
        run = None if control[1] else trainers.execute(task, control)
        total = time.process_time()
        pipe.send(("finished", task["key"], run, total - used - getattr(run, "cpu_seconds", 0.0)))
        used = total


def _end_with_coordinator(lifeline_fd: int) -> None:
    """A run in C++ notices nothing; this thread does, when the other end of the pipe is gone."""
    os.read(lifeline_fd, 1)
    os._exit(0)


def _doubles(*values: float):
    import array

    return array.array("d", values)


def _how(code: int) -> str:
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"
