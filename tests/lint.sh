#!/usr/bin/env bash
# Lints, documentation and packages: `bash tests/lint.sh`.
set -euo pipefail
cd "$(dirname "$0")/.."
all=(--workspace --all-features)

cargo clippy "${all[@]}" --all-targets -- -D warnings
# With the default features alone, which most users have.
cargo clippy --package lock-runtime -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc "${all[@]}" --no-deps
# Cargo keeps the unpacked sources of a version for ever, and would compile a package against those of
# an earlier run.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/lock-*
# All but the upload. The packages are compiled as users get them: without the folders around them.
cargo publish --workspace --dry-run --allow-dirty
