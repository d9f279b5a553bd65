"""CPU time and memory of the parts of a running system, by its pid files ($STATE/pid/NAME: "PID STARTED")."""
import os
import pathlib

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def parts(state):
    """{part: pid} of what lives; replicas keep their number."""
    found = {}
    for file in sorted(pathlib.Path(state, "pid").iterdir()):
        pid, started = file.read_text().split()
        try:
            if stat(pid)[19] == started:
                found[file.name] = int(pid)
        except OSError:
            pass
    return found


def stat(pid):
    """Fields of /proc/PID/stat from the state on, which is the third."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()


def cpu_s(pid):
    field = stat(pid)
    return (int(field[11]) + int(field[12])) / TICKS_PER_S


def rss_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Cpu:
    """CPU seconds by kind of part (api, worker, redis, mariadb, provider) since its making."""

    def __init__(self, state):
        self.pids = parts(state)
        self.before = {name: cpu_s(pid) for name, pid in self.pids.items()}

    def used_s(self):
        used = {}
        for name, pid in self.pids.items():
            kind = name.split("-")[0]
            used[kind] = used.get(kind, 0.0) + cpu_s(pid) - self.before[name]
        return used
