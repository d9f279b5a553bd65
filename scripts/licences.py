"""Licences and sources of everything that is linked, against the lists in deny.toml.

cargo-deny does this and more, and scripts/check prefers it where it is installed; but building it takes three minutes of
CPU on every fresh machine, and these two questions need forty lines over `cargo metadata`.
"""
import json
import re
import subprocess
import sys

try:
    import tomllib
except ImportError:  # Python before 3.11
    from pip._vendor import tomli as tomllib

# What cargo calls a package of its default registry.
REGISTRY = re.compile(r"registry\+https://[^/]+/rust-lang/[^/]+-index$")


def allowed(expression, allow):
    """Whether an SPDX expression can be met with licences of `allow`. AND binds tighter than OR; "/" is an old OR."""
    tokens = re.findall(r"[()]|[^\s()]+(?: WITH [^\s()]+)?", expression.replace("/", " OR "))

    def either():
        met = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in allow
        met = either()
        tokens.pop(0)
        return met

    return either()


def main():
    allow = set(tomllib.load(open("deny.toml", "rb"))["licenses"]["allow"])
    metadata = subprocess.run(["cargo", "metadata", "--format-version=1", "--locked"], check=True, stdout=subprocess.PIPE).stdout
    packages = json.loads(metadata)["packages"]
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] is not None and not REGISTRY.match(package["source"]):
            found.append(f"{name}: comes from {package['source']}")
        if not package["license"]:
            found.append(f"{name}: names no licence")
        elif not allowed(package["license"], allow):
            found.append(f"{name}: {package['license']} is not in deny.toml")
    print(*found, f"{len(packages)} packages looked at, {len(found)} refused", sep="\n")
    sys.exit(bool(found))


main()
