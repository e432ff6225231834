"""Runs on a Ray cluster: long-lived actors, one per CPU, behind the same interface as LocalPool; the only module that imports Ray."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from .trainers import crashed
from .workers import HANGS_AFTER, HANGS_SECONDS, ONE_THREAD, Finished, WorkerError

#: Wall seconds that a cluster has to bring up its first actor.
START_SECONDS = 120.0


class Actor:
    """What runs on a node: one run at a time, while a second thread takes lowered caps."""

    def __init__(self):
        from . import trainers  # an import that fails is told before a run is lost to it

        self._execute = trainers.execute
        self._controls: dict[int, Any] = {}
        self._used = time.process_time()

    def host(self) -> str:
        """Where this actor lives."""
        return socket.gethostname()

    def expect(self, key: int, cap_seconds: float) -> Any:
        """A task is on its way, or here: the two come by different threads."""
        import numpy as np

        return self._controls.setdefault(key, np.array([cap_seconds, 0.0]))

    def lower_cap(self, key: int, cap_seconds: float) -> None:
        if key in self._controls:
            self._controls[key][0] = min(self._controls[key][0], cap_seconds)

    def cancel(self, key: int) -> None:
        if key in self._controls:
            self._controls[key][1] = 1.0

    def execute(self, task: dict) -> tuple[Any, float]:
        """(what the task gave, None where it was cancelled before; CPU seconds outside training since the last)."""
        control = self.expect(task["key"], task["cap_seconds"])
        task = with_header(task)
        run = None if control[1] else self._execute(task, control)
        del self._controls[task["key"]]
        total = time.process_time()
        outside = total - self._used - getattr(run, "cpu_seconds", 0.0)
        self._used = total
        return run, max(0.0, outside)


def with_header(task: dict) -> dict:
    """The task as this node can run it: a header of the user's that is not on it is written from the text that came along."""
    if "header" not in task or Path(task["env"]).exists():
        return task
    folder = Path(tempfile.gettempdir()) / f"sweep-{os.getuid()}-{hashlib.sha256(task['header'].encode()).hexdigest()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    header = folder / Path(task["env"]).name
    partial = header.with_suffix(f".{os.getpid()}")
    partial.write_text(task["header"])
    partial.replace(header)  # at once: other actors of the node do the same
    return {**task, "env": str(header)}


class RayPool:
    """One actor per CPU of the cluster at `address`; a node that is lost costs the runs that were on it."""

    def __init__(self, address: str = "auto", size: int | None = None):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise WorkerError("--ray needs Ray, which is not installed: pip install 'solve-sweep[cluster]'") from None
        self._ray = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as problem:
                line = " ".join(str(problem).split())[:200]
                raise WorkerError(f"--ray {address}: no cluster there ({line}); `ray start --head` starts one") from None
        self.size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # One thread runs, another takes caps: with plain concurrency a second task would run beside the first.
        self._remote = ray.remote(num_cpus=1, concurrency_groups={"runs": 1, "control": 1})(_with_groups(ray))
        self._workers = [_Worker(index, self._remote) for index in range(self.size)]
        self._of_ref: dict[Any, tuple[_Worker, dict]] = {}
        self._finished: list[Finished] = []
        self._headers: dict[str, dict] = {}  # by env: the text of a user's header, for nodes that lack it
        self._await_first()

    def room(self, depth: int = 1) -> int:
        """How many more tasks keep every actor that is up supplied with `depth` of them."""
        return sum(max(0, depth - len(w.tasks)) for w in self._workers if w.ready)

    def submit(self, task: dict) -> None:
        """The least busy actor gets the task; its end is told by `wait`."""
        worker = min((w for w in self._workers if w.ready), key=lambda w: len(w.tasks))
        if task["env"] not in self._headers:
            path = Path(task["env"])
            self._headers[task["env"]] = {"header": path.read_text()} if path.suffix == ".h" and path.is_file() else {}
        task = {**task, **self._headers[task["env"]]}
        worker.actor.expect.remote(task["key"], task["cap_seconds"])
        ref = worker.actor.execute.remote(task)
        if not worker.tasks:
            worker.since = time.monotonic()
        worker.tasks[task["key"]] = task
        self._of_ref[ref] = (worker, task)

    def lower_cap(self, key: int, cap_seconds: float) -> None:
        """A task, running or waiting, may now use only this many CPU seconds."""
        self._tell(key, "lower_cap", cap_seconds)

    def cancel(self, key: int) -> None:
        """A task ends as soon as it looks up, or never begins; `wait` still tells of it."""
        self._tell(key, "cancel")

    def cancel_waiting(self) -> None:
        """No task begins that has not begun yet."""
        for worker in self._workers:
            for key in list(worker.tasks)[1:]:
                self.cancel(key)

    def wait(self, timeout: float | None = None) -> list[Finished]:
        """Sleeps until a task ends or `timeout` seconds are over; what ended since the last call."""
        starting = {w.starting: w for w in self._workers if w.starting is not None}
        refs = [*self._of_ref, *starting]
        if refs:
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=timeout)
            if ready:
                ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                if ref in starting:
                    self._started(starting[ref])
                elif ref in self._of_ref:
                    self._end(ref)
        elif timeout:
            time.sleep(timeout)
        self._kill_those_that_hang()
        finished, self._finished = self._finished, []
        return finished

    def wake(self) -> None:
        """`wait` returns by itself soon enough."""

    def close(self) -> None:
        """Every actor ends now, whatever it does."""
        for worker in self._workers:
            self._ray.kill(worker.actor, no_restart=True)
        self._workers, self._of_ref = [], {}
        if self._ours:
            self._ray.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()

    def _await_first(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not any(w.ready for w in self._workers):
            if time.monotonic() > deadline:
                raise WorkerError(f"--ray: no actor started within {START_SECONDS:.0f} s; are all CPUs of the cluster taken?")
            self.wait(1.0)

    def _tell(self, key: int, method: str, *arguments: Any) -> None:
        for worker in self._workers:
            if key in worker.tasks:
                getattr(worker.actor, method).remote(key, *arguments)

    def _started(self, worker: _Worker) -> None:
        try:
            worker.host, worker.starting = self._ray.get(worker.starting), None
        except self._ray.exceptions.RayActorError:
            # Placed on a node that went away meanwhile: it waits for another; one that cannot import fails for good.
            worker.failures += 1
            if worker.failures >= 3:
                raise WorkerError(f"--ray: actors die while they start; is sweep installed on every node? ({worker.host})") from None
            worker.start(self._remote)

    def _end(self, ref: Any) -> None:
        worker, task = self._of_ref.pop(ref)
        now = time.monotonic()
        name = f"{worker.host}/{worker.index}"
        try:
            run, cpu_seconds = self._ray.get(ref)
        except self._ray.exceptions.RayError as problem:
            line = " ".join(str(problem).split())[:160]
            return self._lost(worker, f"the worker was lost ({type(problem).__name__}: {line})")
        del worker.tasks[task["key"]]
        self._finished.append(Finished(task["key"], run, name, cpu_seconds, now - worker.since))
        worker.since = now
        return None

    def _lost(self, worker: _Worker, reason: str) -> None:
        """The run it was in has crashed; what waited behind it has not begun; another actor comes where there is room."""
        tasks, worker.tasks = list(worker.tasks.values()), {}
        self._of_ref = {ref: entry for ref, entry in self._of_ref.items() if entry[0] is not worker}
        for task in tasks:
            run = crashed(task["seed"], reason, time.monotonic() - worker.since) if task is tasks[0] else None
            self._finished.append(Finished(task["key"], run, f"{worker.host}/{worker.index}"))
        worker.start(self._remote)

    def _kill_those_that_hang(self) -> None:
        for worker in self._workers:
            if worker.ready and worker.tasks:
                cap, lasted = next(iter(worker.tasks.values()))["cap_seconds"], time.monotonic() - worker.since
                if lasted > HANGS_AFTER * cap + HANGS_SECONDS:
                    self._ray.kill(worker.actor, no_restart=True)
                    self._lost(worker, f"no end in sight: killed after {lasted:.0f} s with a cap of {cap:g} s")


def _knock(address: str) -> None:
    """OSError where host:port does not answer, which Ray itself takes minutes to say."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()


class _Worker:
    """An actor, and those that take its place when its node is lost."""

    def __init__(self, index: int, remote: Any):
        self.index, self.host, self.failures = index, "?", 0
        self.tasks: dict[int, dict] = {}  # in the order they will run
        self.since = 0.0
        self.start(remote)

    def start(self, remote: Any) -> None:
        self.actor = remote.options(runtime_env={"env_vars": ONE_THREAD}).remote()
        self.starting = self.actor.host.remote()

    @property
    def ready(self) -> bool:
        return self.starting is None


def _with_groups(ray: Any) -> type:
    """Actor with each method in the thread it belongs to."""
    groups = {"execute": "runs", "host": "control", "expect": "control", "lower_cap": "control", "cancel": "control"}
    methods = {name: ray.method(concurrency_group=group)(getattr(Actor, name)) for name, group in groups.items()}
    return type("Actor", (Actor,), methods)
