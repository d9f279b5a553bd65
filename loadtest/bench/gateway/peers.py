"""Writes what the bench of other gateways needs to run Penstock beside them.

    peers.py FOLDER BINARY PORT     writes FOLDER/penstock.toml and FOLDER/penstock.json

The bench's provider listens on 9100 and its Redis on 9179; it tells behaviours apart by a tag in the path, so each is a provider
of its own here. Calls of `perf` go through both buckets, with limits that they never reach.
"""
import json
import pathlib
import sys

PROVIDER, REDIS = "http://127.0.0.1:9100", "redis://127.0.0.1:9179/"
TAGS = {"fake": "", "b": "/b", "h": "/h", "t3": "/t3", "p1": "/p1", "p2": "/p2"}
LIMITED = {"rpm": "rpm = 60\nburst_ms = 57000", "tpm": "tpm = 50000\nburst_ms = 57000"}  # a burst may use the minute, as with peers
RUNS = 16  # each run of a limit has an account, and so a bucket, of its own; calls one by one are runs from 10 on


def settings():
    providers = {name: f"{PROVIDER}{tag}/v1" for name, tag in TAGS.items()}
    limits = {"fake": "rpm = 1000000000\ntpm = 1000000000000"}
    chains = {"fake": ["fake/fake"], "fake-b": ["b/fake"], "fake-h": ["h/fake"], "fake-t3": ["t3/fake"], "fake-p": ["p1/fake", "p2/fake"]}
    for kind, limit in LIMITED.items():
        for run in range(RUNS):
            name = f"{kind}{run}"
            providers[name], limits[name], chains[f"fake-{name}"] = f"{PROVIDER}/b/v1", limit, [f"{name}/fake"]
    text = ['[gateway]\npermits = 1024\n\n[log]\nfilter = "error"\n\n[agents]\nassistant = { chain = "fake" }\n\n[models."t3/fake"]\nfirst_token_ms = 3000\n']
    text += [f'[providers.{name}]\ndialect = "openai"\nbase_url = "{url}"\n' for name, url in providers.items()]
    text += [f"[limits.{name}]\n{limit}\n" for name, limit in limits.items()]
    text += ["[chains]"] + [f"{name}.hops = {json.dumps(hops)}" for name, hops in chains.items()]
    return "\n".join(text) + "\n"


def system(folder, binary, port):
    url = f"http://127.0.0.1:{port}/v1/chat/completions"

    def route(model):
        return {"url": url, "headers": {}, "body": {"model": model}}

    routes = {"perf": "fake", "b": "fake-b", "h": "fake-h", "t3": "fake-t3", "p": "fake-p",
              "rpm60:lua": "fake-rpm{run}", "tpm50k:lua": "fake-tpm{run}"}
    return {
        "name": "penstock",
        "cmd": [binary, "serve", "--config", f"{folder}/penstock.toml", "--listen", f"127.0.0.1:{port}", "--wait-ms", "0"],
        "env": {"REDIS_URL": REDIS},
        "port": int(port),
        "ready_path": "/healthz",
        "needs_redis": True,
        "behaviours": True,
        "limits": ["lua"],
        "routes": {kind: route(model) for kind, model in routes.items()},
    }


def main(folder, binary, port):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "penstock.toml").write_text(settings())
    (folder / "penstock.json").write_text(json.dumps(system(folder, binary, port), indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:4])
