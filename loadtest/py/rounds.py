"""Runs one k6 script some rounds against a running system and writes its figures; fails when a law was broken.

    rounds.py SCENARIO SCRIPT ROUNDS [NAME=VALUE for k6 ...]
Environment: K6, STATE (the system's folder), FIGURES (file of figures), and what the system wrote into $STATE/env.
"""
import json
import os
import subprocess
import sys

from figures import Figures
from processes import Cpu, rss_mb

SHOWN = ("med", "p(95)", "max")


def k6(script, settings):
    """The summary line of one run. k6 ends with 99 when a threshold was crossed; the summary says which."""
    argv = [os.environ["K6"], "run", "--quiet", "--no-usage-report", *(word for setting in settings for word in ("-e", setting)), f"loadtest/k6/{script}.js"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 99):
        sys.exit(f"k6 ended with {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def one_round(figures, scenario, script, settings):
    state = os.environ["STATE"]
    cpu = Cpu(state)
    out = k6(script, settings)
    used = cpu.used_s()
    for name in ("submitted", "admitted", "rejected", "succeeded", "cancelled", "failed", "broken"):
        if out[name]:
            figures.add(scenario, name, "tasks", out[name])
    for trend in ("first_ms", "accepted_ms", "rejected_ms"):
        for statistic in SHOWN if trend in out else ():
            figures.add(scenario, f"{trend} {statistic}", "ms", out[trend][statistic])
    for kind in sorted(used):
        figures.add(scenario, f"CPU {kind}", "ms a submit", used[kind] * 1e3 / out["submitted"])
    for name, pid in cpu.pids.items():
        figures.add(scenario, f"RSS {name}", "MB", rss_mb(pid))
    for law in out["broken_laws"]:
        print(f"{scenario}: broken: {law}", file=sys.stderr)
    return out["broken_laws"]


def main():
    scenario, script, rounds, *settings = sys.argv[1:]
    figures = Figures(os.environ["FIGURES"])
    broken = []
    for number in range(1, int(rounds) + 1):
        print(f"{scenario}, round {number} of {rounds}", file=sys.stderr)
        broken += one_round(figures, scenario, script, settings)
    no, yes = (figures.median(scenario, f"{answer}_ms p(95)") for answer in ("rejected", "accepted"))
    # A thousand at once wait for each other, and the few that are accepted are among the first: only a burst that is
    # served in one go is judged.
    is_judged = (figures.median(scenario, "submitted") or 0) <= 200
    if is_judged and no is not None and yes is not None and no >= yes:
        broken.append("a no is not faster than a yes")
        print(f"{scenario}: broken: 429 took {no} ms, 202 took {yes} ms (P95, median of the rounds)", file=sys.stderr)
    sys.exit(bool(broken))


main()
