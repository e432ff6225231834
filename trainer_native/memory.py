"""How much memory this process can still have."""

from __future__ import annotations

import resource
from pathlib import Path


def available() -> int | None:
    """Bytes: the least of what is free on the machine, in this process's cgroups and under its address-space limit.

    None where nothing says.
    """
    found = [limit for limit in (_machine(), _address_space(), *_cgroups()) if limit is not None]
    return max(0, min(found)) if found else None


def words(size: float) -> str:
    """`13.2 GB`, `840 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _machine(path: Path = Path("/proc/meminfo")) -> int | None:
    return next((1024 * int(line.split()[1]) for line in _lines(path) if line.startswith("MemAvailable:")), None)


def _address_space() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _lines(Path("/proc/self/statm"))
    if limit == resource.RLIM_INFINITY or not used:
        return None
    return limit - int(used[0].split()[0]) * resource.getpagesize()


def _cgroups(of: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What is left under each limit that holds here, of cgroups version 2 and 1; file cache that can be dropped is free."""
    left = []
    for line in _lines(of):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        new = not controllers
        top = mounted if new else mounted / "memory"
        names = ("memory.max", "memory.current", "inactive_file") if new else (
            "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        inside = Path(path.lstrip("/"))
        for folder in (top / inside, *(top / parent for parent in inside.parents)):
            limit, used = (_number(folder / name) for name in names[:2])
            if limit is None or used is None:
                continue
            droppable = next((int(at.split()[1]) for at in _lines(folder / "memory.stat") if at.split()[0] == names[2]), 0)
            left.append(limit - used + droppable)
    return left


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None  # "max": no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
