#!/usr/bin/env bash
# Counts the system calls of a busy broker over two seconds, after it has warmed up; fails at ten or more.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v strace >/dev/null || { echo "syscalls: strace is not installed" >&2; exit 3; }
command -v timeout >/dev/null || { echo "syscalls: timeout is not installed" >&2; exit 3; }

cargo build --release -p ringlog-benches --example busy
busy="${CARGO_TARGET_DIR:-target}/release/examples/busy"
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

exec {said}< <("$busy" 5)
read -r _ pid <&"$said"
# A tracer that has to wait for a core keeps the traced thread stopped, the other one drains and sleeps, and each wake is
# traced again: so it goes first where that is allowed.
first=()
chrt -f 2 true 2>/dev/null && first=(chrt -f 2)
"${first[@]}" timeout -s INT 2 strace -c -f -p "$pid" -o "$counts" || true
cat <&"$said"
cat "$counts"
calls=$(awk '/ total$/ { print $4 }' "$counts")
echo "system calls in two busy seconds: ${calls:-0}"
[ "${calls:-0}" -lt 10 ]
