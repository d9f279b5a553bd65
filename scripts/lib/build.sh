# shellcheck shell=bash
# The programs of this checkout, built in $PROFILE (release, or dev).
# Needs: say.sh, and the top of the checkout as the working directory.

PROFILE=${PROFILE:-release}
case $PROFILE in
  dev | debug) PROFILE=dev BIN_DIR=debug ;;
  *) BIN_DIR=$PROFILE ;;
esac
BIN_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}/$BIN_DIR")

build() {
  command -v cargo >/dev/null || die "cargo is not there: install Rust first"
  cargo build --locked --profile "$PROFILE" --workspace --bins
}
