#!/usr/bin/env bash
# bash tests/run.sh                                Tests everything, each case wherever it can differ.
# bash tests/run.sh full                           Plays each case on every topology, all suites of the engines, all
#                                                  combinations of features, and ten minutes of chaos; on MySQL,
#                                                  too, if Maven is there.
# bash tests/run.sh quick|full PROGRAM [FILTER...] One program of tests, or those tests in it.
# bash tests/run.sh soak N                         The tests that need servers, N times while all cores are busy, and
#                                                  N times on one core; prints what failed, and what was repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/tools.sh

tier="${1:-quick}"
[ $# = 0 ] || shift
# Every step uses the same packages and features: others would compile the dependencies again.
all=(--workspace --all-features)
# `house` is about the sources and the documents, `lib` are the unit tests. They all run beside `servers`, which waits
# more than it computes.
beside=(browser house model lib doc api cli fuzz)
# Most tests wait for servers, so more of them run at once than there are cores.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-6}"
# For a program of tests.
limit=15m
logs=target/test-logs
mkdir -p "$logs"
: >"$logs/results"
: >"$logs/times"

# step TITLE COMMAND...
step() {
    local title="$1" since=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    "$@"
    printf '%5d s  %s\n' $((SECONDS - since)) "$title" >>"$logs/times"
}

build() {
    cargo test "${all[@]}" --no-run
}

# test_program LOG PROGRAM [ARGUMENT...]: stops one that hangs; the end of its log shows which tests were running.
test_program() {
    local log="$1" target=(--test "$2")
    case "$2" in
    lib) target=(--lib --bins) ;;
    doc) target=(--doc) ;;
    mysql)
        target=(--test servers)
        local -x LOCK_MYSQL="$PWD/$mysql"
        ;;
    esac
    shift 2
    : >"$log"
    timeout --kill-after=10 "$limit" cargo test "${all[@]}" --no-fail-fast "${target[@]}" -- "$@" >"$log" 2>&1 &
    # Not through a pipe, which a process that a test has left behind would keep open.
    tail --pid=$! -n +1 -f "$log"
    wait $!
}

# verdicts PROGRAM: reads the output of its tests, and prints for each that failed: `failed` or `repeat`, the program,
# the test, and for a topology of `conformance`, the case. A test that failed while the machine starved it has said so.
verdicts() {
    awk -v program="$1" '
        /^---- .* stdout ----$/ { test = $2; tests[test] }
        test && /^repeat alone: / { excused[test] }
        test && /^repeat alone: .*,/ { sub(/,.*/, ""); cases[test] = cases[test] " " $3 }
        test && /^failed: / { real[test] = real[test] " " $2 }
        /^failures:$/ { test = "" }
        /^    [^ ]+$/ && $1 in tests { failed[$1] }
        END {
            for (test in failed) {
                if (test in real) { n = split(real[test], names, " "); word = "failed" }
                else if (test in excused) { n = split(cases[test], names, " "); word = "repeat" }
                else { n = 0; word = "failed" }
                if (n == 0) print word, program, test
                for (i = 1; i <= n; i++) print word, program, test, names[i]
            }
        }'
}

# play PROGRAM [ARGUMENT...]: tests it, and writes down what failed, and what is to be repeated.
play() {
    local log="$logs/$1.log" found="$logs/$1.verdicts"
    test_program "$log" "$@" && return
    verdicts "$1" <"$log" >"$found"
    # It was not built, it hung, or a process of it ended before its tests.
    if [ ! -s "$found" ] || grep -q "didn't exit successfully.*signal" "$log"; then
        echo "failed $1" >>"$found"
    fi
    cat "$found" >>"$logs/results"
}

# Repeats alone, once nothing else runs, what the machine has starved.
repeat_starved() {
    local program test name
    while read -r _ program test name <&3; do
        printf '\n-- repeating %s %s alone\n' "$test" "$name"
        LOCK_CASES="$name" RUST_TEST_THREADS=1 test_program "$logs/repeated.log" "$program" --exact "$test" ||
            echo "failed $program $test $name" >>"$logs/results"
    done 3< <(grep "^repeat" "$logs/results")
}

# Prints what only the full tier plays: what the engines do beyond the cases that all share, all combinations of
# features, and the longest searches of the model. `lib` explores a third of the schedules in the quick one.
skipped() {
    printf -- '--skip %s ' postgres:: postgres_on postgres_behind etcd:: zookeeper:: zookeeper_ensemble \
        every_combination_of_features_compiles three_clients_that_share quorum_readers_and_writers
}

# play_program PROGRAM [FILTER...]
play_program() {
    local program="$1"
    shift
    # shellcheck disable=SC2046
    case "$program $tier $*" in
    "servers quick " | "house quick " | "model quick ") play "$program" $(skipped) ;;
    # The part of the others.
    "servers full redis") play servers --skip postgres --skip etcd --skip zookeeper ;;
    # From a copy: its workers execute the same file, which cargo may overwrite.
    "chaos full ")
        cargo build "${all[@]}" --bin chaos
        cp "${CARGO_TARGET_DIR:-target}/debug/chaos" target/test-logs/
        target/test-logs/chaos --minutes 10 || echo "failed chaos" >>"$logs/results"
        ;;
    # What is special to MariaDB, and what all share, once more on MySQL.
    "mysql full ") play mysql mysql:: conformance::mariadb ;;
    *) play "$program" "$@" ;;
    esac
}

play_programs() {
    local program
    for program in "$@"; do
        step "$program" play_program "$program"
    done
}

# `timeout` gives its program a process group of its own.
stop() {
    trap - INT TERM
    # shellcheck disable=SC2046
    kill $(jobs -p) 0
}

finish() {
    local failed repeated program
    repeat_starved
    failed="$(grep -c "^failed" "$logs/results" || true)"
    repeated="$(grep -c "^repeat" "$logs/results" || true)"
    # Of a long output, once more what the tests say that failed.
    cut -d " " -f 2 "$logs/results" | sort -u | while read -r program; do
        sed -n '/^---- .* stdout ----$/,/^failures:$/p' "$logs/$program.log" | cut -c1-500 || true
    done
    printf '\n%s\n%s\n' "$(cat "$logs/times")" "$(cat "$logs/results")"
    printf '%s failed, %s repeated alone\n' "$failed" "$repeated"
    exit $((failed > 0))
}

# soak N
soak() {
    local run place busy=()
    # shellcheck disable=SC2064
    trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        busy+=($!)
    done
    for place in "$(seq -s, 0 $(($(nproc) - 1)))" 0; do
        for run in $(seq "$1"); do
            taskset -cp "$place" $$ >/dev/null
            step "run $run on cores $place" play_program servers >"$logs/soak-$place-$run.log" 2>&1
            echo "run $run on cores $place: $(wc -l <"$logs/results") failed or repeated so far"
        done
    done
    kill "${busy[@]}"
    taskset -cp "$(seq -s, 0 $(($(nproc) - 1)))" $$ >/dev/null
    printf '\n  runs  verdict program test case\n'
    sort "$logs/results" | uniq -c | sort -rn
}

case "$tier" in
quick) export LOCK_SHUTTLE="${LOCK_SHUTTLE:-200}" ;;
full)
    export LOCK_FULL=1 LOCK_SIMULATIONS="${LOCK_SIMULATIONS:-600}"
    limit=60m
    beside+=(chaos)
    ;;
soak)
    step tools install_tools
    step build build
    tier=quick soak "$1"
    finish
    ;;
*)
    sed -n '2,/^set/s/^# //p' "$0" >&2
    exit 2
    ;;
esac

step tools install_tools
if [ "$tier" = full ] && may_fetch_mysql; then
    fetch_mysql
    beside+=(mysql)
fi
if [ $# -gt 0 ]; then
    step "$*" play_program "$@"
    finish
fi
step format cargo fmt --all --check
step build build
trap stop INT TERM
(
    trap stop TERM
    renice -n 5 "$BASHPID" >/dev/null
    play_programs "${beside[@]}"
) >"$logs/beside.log" 2>&1 &
others=$!
play_programs servers
wait "$others" || echo "failed ${beside[*]}" >>"$logs/results"
cat "$logs/beside.log"
finish
