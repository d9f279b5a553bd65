# shellcheck shell=bash
# What a running system wrote about itself.
# Needs: STATE, say.sh.

# env_load: the system's URLs and keys as variables.
env_load() {
  [[ -s $STATE/env ]] || die "no system is running here (make start)"
  set -a
  # shellcheck source=/dev/null
  source "$STATE/env"
  set +a
}
