#!/usr/bin/env bash
# Checks and tests everything: `bash tests/run.sh`. Installs redis-server, PostgreSQL, PgBouncer, etcd, ZooKeeper,
# Prometheus and Chromium if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf '\n== %s\n' "$*"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install TOOL APT_PACKAGE BREW_FORMULA
install() {
    step "installing $1"
    if command -v apt-get >/dev/null; then
        as_root apt-get update -qq
        # Debian starts a server that it installs, unless this level is set. The tests start their own.
        as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qq -y --no-install-recommends "$2"
    elif command -v brew >/dev/null; then
        brew install --quiet "$3"
    else
        echo "$1 is missing: install the package that has it (here probably \`$2\`), then run this again" >&2
        exit 1
    fi
}

command -v redis-server >/dev/null || install redis-server redis-server redis
# Debian keeps the programs of PostgreSQL's server in a directory for each version.
command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
    install postgresql postgresql postgresql@17
command -v etcd >/dev/null || install etcd etcd-server etcd
command -v etcdctl >/dev/null || install etcdctl etcd-client etcd
PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null || install pgbouncer pgbouncer pgbouncer
{ command -v java && [ -e /usr/share/java/zookeeper.jar ]; } >/dev/null || install zookeeper zookeeper zookeeper
# Tests check metrics, alerts and the dashboard with it.
command -v promtool >/dev/null || install promtool prometheus prometheus
# One test installs Python's Redis client, and locks with it.
command -v python3 >/dev/null || install python3 python3 python
python3 -m pip --version >/dev/null 2>&1 || install pip python3-pip python

# The page of `lock-admin` is tested in it.
command -v chromium >/dev/null || install chromium chromium chromium
command -v chromedriver >/dev/null || install chromedriver chromium-driver chromedriver
# axe-core finds what keeps people from using the page. A Python package has it.
axe=target/axe-core
if [ ! -e "$axe/axe.min.js" ]; then
    step "fetching axe-core"
    python3 -m pip download --quiet --no-deps --dest "$axe" axe-playwright-python==0.1.5
    python3 - "$axe" <<'END'
import hashlib, pathlib, sys, zipfile
axe = pathlib.Path(sys.argv[1])
[package] = axe.glob("*-0.1.5-*.whl")
script = zipfile.ZipFile(package).read("axe_playwright_python/axe.min.js")
known = "3c036d66b6d90c963b01cf7573e1523d3fcfa88a93c8e172cfc8b4993f10d586"
if hashlib.sha256(script).hexdigest() != known:
    sys.exit("axe-core is not what it was")
(axe / "axe.min.js").write_bytes(script)
END
fi

# Tests measure time: if permitted, they run at a higher priority than other processes. Otherwise fewer tests run
# at once.
prompt=()
threads=4
if nice -n -10 true 2>/dev/null && [ "$(nice -n -10 nice)" -lt "$(nice)" ]; then
    prompt=(nice -n -10)
    threads=5
fi

step "format"
cargo fmt --all --check

# Every step uses the same packages and features: others would compile the dependencies again.
all=(--workspace --all-features)

step "build"
cargo build "${all[@]}" --bins --examples

# Chaos mostly waits, so it runs beside the next steps, which have a lower priority. It runs from a copy: its workers
# execute the same file, which cargo may overwrite.
mkdir -p target/chaos
rm -f target/chaos/chaos
cp "${CARGO_TARGET_DIR:-target}/debug/chaos" target/chaos/chaos
# In a process group of its own, so that its servers end with it if a step fails.
set -m
${prompt[@]+"${prompt[@]}"} target/chaos/chaos --minutes 2 >target/chaos/log 2>&1 &
chaos=$!
set +m
trap 'kill -- "-$chaos" 2>/dev/null || true' EXIT

step "build of the tests"
nice -n 19 cargo test "${all[@]}" --no-run

step "lints"
nice -n 19 cargo clippy "${all[@]}" --all-targets -- -D warnings
nice -n 19 cargo clippy --package lock-runtime -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" nice -n 19 cargo doc "${all[@]}" --no-deps

step "packages"
nice cargo package --package lock-macros --package lock-runtime --package lock-admin --package lock-cli --allow-dirty --no-verify

# A failure ends the script after all tests have run.
failed=0

step "tests that measure no time"
# At a higher priority than the builds, since another program that uses all cores would leave nothing to nice 19.
untimed=(--test api --test default --test documents --test features --test layers --test lints --test mutations --test ops --test public_api --test quorum --test shared)
nice -n 5 cargo test "${all[@]}" --no-fail-fast --bins "${untimed[@]}" || failed=1
nice -n 5 cargo test "${all[@]}" --doc || failed=1

step "two minutes of chaos"
wait "$chaos" || { cat target/chaos/log && failed=1; }
trap - EXIT
sed -n '/^|/,$p' target/chaos/log

step "tests that measure time"
# They mostly wait for servers, so several run at once.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$threads}"
timed=(--lib --test browser --test cli --test early_exit --test fuzz --test paused)
${prompt[@]+"${prompt[@]}"} cargo test "${all[@]}" --no-fail-fast "${timed[@]}" || failed=1
# What PostgreSQL, etcd and ZooKeeper do beyond the conformance suite takes a minute more.
skip=()
[ -n "${LOCK_ENGINES:-}" ] || skip=(--skip postgres:: --skip postgres_on --skip postgres_behind --skip etcd:: --skip zookeeper::)
${prompt[@]+"${prompt[@]}"} cargo test "${all[@]}" --test servers -- ${skip[@]+"${skip[@]}"} || failed=1
exit "$failed"
