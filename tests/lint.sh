#!/usr/bin/env bash
# Lints, documentation and packages: `bash tests/lint.sh`.
set -euo pipefail
cd "$(dirname "$0")/.."
all=(--workspace --all-features)

cargo clippy "${all[@]}" --all-targets -- -D warnings
# With the default features alone, which most users have.
cargo clippy --package lock-runtime -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc "${all[@]}" --no-deps
cargo package --package lock-macros --package lock-runtime --package lock-admin --package lock-cli --allow-dirty --no-verify
