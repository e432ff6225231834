"""Facts about the machine and the build that measured something."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cores() -> list[int]:
    """The logical processors this process may use, lowest first; limited by a container's share where there is one."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    share = _container_share()
    return allowed[: max(1, int(share))] if share else allowed


def pin(core: int) -> None:
    """This process stays on one logical processor, where the system knows such a thing."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def facts() -> dict:
    """What a reader needs to judge a time: processor, cores in use, memory in bytes, system, Python."""
    return {
        "cpu": _processor(),
        "cores": len(cores()),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def alike(invocations: list[dict], mine: int) -> set[int]:
    """Ids of the invocations whose times may stand beside those of `mine`: same type of machine, same build of the trainer."""

    def kind(row: dict) -> tuple:
        facts = row["machine"] or {}
        return facts.get("cpu"), facts.get("architecture"), row["build"]

    wanted = next(kind(row) for row in invocations if row["id"] == mine)
    return {row["id"] for row in invocations if kind(row) == wanted}


def _container_share() -> float | None:
    """Processors' worth of time that the control group grants; None where it sets no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else float(quota) / float(period)
    except (OSError, ValueError):
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    if platform.system() == "Darwin":
        import subprocess

        named = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if named.returncode == 0 and named.stdout.strip():
            return named.stdout.strip()
    return platform.processor() or platform.machine()
