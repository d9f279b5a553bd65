# shellcheck shell=bash
# Words to the person at the terminal: progress on stderr, a failure that ends the script.

say() { printf '%s\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}
