"""Parses compose.yaml and checks what it refers to, where no Docker Compose is at hand to do it."""
import pathlib
import re
import sys

from ruamel.yaml import YAML


def main():
    compose = YAML(typ="safe").load(pathlib.Path("compose.yaml"))
    services, volumes = compose["services"], compose.get("volumes") or {}
    targets = set(re.findall(r"^FROM \S+ AS (\S+)", pathlib.Path("Dockerfile").read_text(), re.M | re.I))
    found = []
    for name, service in services.items():
        if ("image" in service) == ("build" in service):
            found.append(f"{name}: needs either an image or a build")
        build = service.get("build")
        if build and build.get("target") not in targets:
            found.append(f"{name}: the Dockerfile has no stage {build.get('target')}")
        depends = service.get("depends_on") or {}
        for other, how in depends.items():
            if other not in services:
                found.append(f"{name}: depends on {other}, which is not a service")
            elif how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
                found.append(f"{name}: waits for the health of {other}, which has no healthcheck")
        for mount in service.get("volumes") or []:
            source = mount.split(":")[0]
            if source.startswith(("./", "../")):
                if not pathlib.Path(source).exists():
                    found.append(f"{name}: {source} is not there")
            elif source not in volumes:
                found.append(f"{name}: volume {source} is not declared")
    print(*found, f"{len(services)} services looked at, {len(found)} findings", sep="\n")
    sys.exit(bool(found))


main()
