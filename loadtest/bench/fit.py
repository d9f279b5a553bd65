"""Fits a copy of the queue bench with Penstock: fit.py COPY. Each change must find its place exactly once or more."""
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).parent

CHANGES = {
    # Penstock's own API in the k6 script; its socket needs a header.
    "k6/adapters.js": [("export const adapters = { default: peers };", "import { penstock } from './penstock.js';\nexport const adapters = { default: peers, penstock };")],
    "k6/burst.js": [("new WebSocket(A.wsUrl(BASE, id))", "new WebSocket(A.wsUrl(BASE, id), null, A.wsParams || {})")],
    # The lean client speaks only the shared contract: Penstock brings its own with the same output.
    "bench.py": [
        ('run_json([Q, "burst", ', 'run_json([*SYSTEMS[name].get("lean", [Q]), "burst", '),
        ('run_json([Q, "seq", ', 'run_json([*SYSTEMS[name].get("lean", [Q]), "seq", '),
        # What stands beside it (database, provider) is reported beside it.
        ("c0, r0 = sum(cpu_s(p.pid) for p in st.procs), cpu_s(R.proc.pid)", "beside = {k: cpu_s(p) for k, p in s.get('beside', {}).items()}; c0, r0 = sum(cpu_s(p.pid) for p in st.procs), cpu_s(R.proc.pid)"),
        ('rec(name, pre + "cpu_ms_per_task", "ms", (c1 - c0 + r1 - r0) * 1e3 / VUS)', 'rec(name, pre + "cpu_ms_per_task", "ms", (c1 - c0 + r1 - r0) * 1e3 / VUS)\n'
         '                for k, p in s.get("beside", {}).items():\n'
         '                    rec(name, pre + f"cpu_ms_per_task_{k}", "ms", (cpu_s(p) - beside[k]) * 1e3 / VUS)'),
    ],
    "systems.py": [("    SYSTEMS[\"penstock\"] = dict(", "    SYSTEMS[\"penstock\"] = dict(\n        lean=shlex.split(os.environ[\"PENSTOCK_LEAN\"]),\n"
                    "        beside=dict((k, int(p)) for k, p in (x.split(\":\") for x in os.environ[\"PENSTOCK_BESIDE\"].split())),")],
}


def main():
    copy = pathlib.Path(sys.argv[1])
    for name, changes in CHANGES.items():
        path = copy / name
        text = path.read_text()
        for old, new in changes:
            if old not in text:
                sys.exit(f"{name} of the queue bench has changed: {old!r} is not there")
            text = text.replace(old, new)
        path.write_text(text)
    shutil.copy(HERE / "adapter.js", copy / "k6" / "penstock.js")


main()
