"""The queue bench's results as one table, a column for each system: table.py RESULTS SYSTEM..."""
import json
import sys

FIGURES = [
    # (figure, unit, what it means)
    ("burst_admitted", "of 100", "burst of 100, connect first: admitted"),
    ("burst_succeeded", "of 100", "  succeeded"),
    ("burst_errors", "", "  errors"),
    ("burst_first_p50", "ms", "  POST sent → first event, P50"),
    ("burst_first_p95", "ms", "  POST sent → first event, P95"),
    ("burst_first_max", "ms", "  POST sent → first event, max"),
    ("burst_post_p95", "ms", "  POST sent → 202, P95"),
    ("burst_cpu_ms_per_task", "ms", "  CPU a task: door, workers, Redis"),
    ("burst_cpu_ms_per_task_mariadb", "ms", "  CPU a task: MariaDB"),
    ("burst_cpu_ms_per_task_provider", "ms", "  CPU a task: fake provider"),
    ("lean_first_p50", "ms", "  the same by a lean client, P50"),
    ("lean_first_p95", "ms", "  the same by a lean client, P95"),
    ("seq_first_p50", "ms", "one at a time, idle system: first event, P50"),
    ("seq_first_p95", "ms", "  P95"),
    ("limit8_admitted", "of 100", "queue limit 8, 4 slots, 100 at once: admitted"),
    ("limit8_rejected", "of 100", "  rejected"),
    ("limit8_retry_after", "of 100", "  with Retry-After"),
    ("limit8_errors", "", "  errors"),
    ("limit8_429_p95", "ms", "  POST sent → 429, P95"),
    ("idle_cpu_server", "%", "idle: CPU of the door"),
    ("idle_cpu_per_worker", "%", "  CPU of a worker"),
    ("idle_cpu_redis", "%", "  CPU of Redis"),
    ("idle_redis_cmds", "1/s", "  Redis commands"),
    ("idle_rss_server", "MB", "  RSS of the door"),
    ("idle_rss_per_worker", "MB", "  RSS of a worker"),
]


def main():
    results = json.load(open(sys.argv[1]))
    systems = sys.argv[2:]
    found = {(row["system"], row["figure"]): row for row in results["figures"]}

    def cell(system, figure):
        row = found.get((system, figure))
        return f"{row['value']:,.2f} ({row['min']:,.2f}–{row['max']:,.2f})" if row else "–"

    def ratio(figure):
        if ("floor", figure) in found and ("penstock", figure) in found and found["floor", figure]["value"]:
            return f"{found['penstock', figure]['value'] / found['floor', figure]['value']:>10.2f}"
        return ""

    print(f"{'median (min–max)':<50}" + "".join(f"{system:>26}" for system in systems) + f"{'÷ floor':>10}")
    for figure, unit, meaning in FIGURES:
        if any((system, figure) in found for system in systems):
            print(f"{meaning + (', ' + unit if unit else ''):<50}" + "".join(f"{cell(system, figure):>26}" for system in systems) + ratio(figure))
    for note in results["notes"]:
        print("note:", note)


main()
