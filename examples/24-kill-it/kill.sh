#!/bin/sh
# Lets the driver crash while it prepares claims, kills the whole cluster with -9 again and again, lets
# the clock jump and the disk fill up, and looks at what is left. Needs cc and prlimit.
set -eu
here=$(dirname "$0")
data=$(mktemp -d /tmp/dray-XXXXXX)
export KUBECONFIG="$data/kubeconfig" CLOCK_AHEAD="$data/ahead"
trap 'dray down --data "$data" > "$data/log" 2>&1; rm -rf "$data"' EXIT
cc -shared -fPIC -o "$data/clock.so" "$here/clock.c"

await_next_look() {
  kill -0 "$process"
  sleep 0.1
}

start() {
  : > "$data/log"
  LD_PRELOAD="$data/clock.so" dray up --fleet h100 --nodes 1 --listen 127.0.0.1:0 --data "$data" > "$data/log" 2>&1 &
  process=$!
  until grep -q '^dray is up' "$data/log"; do await_next_look; done
}

await_ready() {
  until [ "$(dray get statefulset survivor -o jsonpath='{.status.readyReplicas}')" = "$1" ]; do await_next_look; done
}

made() {
  dray get pod "$1" -o jsonpath='{.metadata.creationTimestamp}'
}

start
dray fleet crash h100-0 > "$data/out"
dray apply -f "$here/pods.yaml" > "$data/out"
for round in 1 2 3; do
  kill -9 "$process"
  wait "$process" 2> "$data/out" || true
  start
done
dray fleet heal h100-0 > "$data/out"
await_ready 6
echo "killed 3 times"

touch "$CLOCK_AHEAD"
dray patch statefulset survivor -p '{"spec": {"replicas": 7}}' > "$data/out"
await_ready 7
rm "$CLOCK_AHEAD"
dray patch statefulset survivor -p '{"spec": {"replicas": 8}}' > "$data/out"
await_ready 8
expr "$(made survivor-6)" \> "$(made survivor-7)" > "$data/out"
echo "worked on while the clock jumped a day ahead and back"

prlimit --pid "$process" --fsize=0:
dray apply -f "$here/later.yaml" 2>&1 | grep -o 'the last write failed'
dray status --data "$data" 2>&1 | grep -o 'the API server is not ready'
dray get statefulset survivor -o jsonpath='{.status.readyReplicas} still run{"\n"}'
prlimit --pid "$process" --fsize=unlimited:
dray apply -f "$here/later.yaml"

devices='{range .items[*].status.allocation.devices.results[*]}{.pool}/{.device}{"\n"}{end}'
dray get resourceclaims -o jsonpath="$devices" | sort > "$data/held"
echo "$(wc -l < "$data/held") claims have $(sort -u "$data/held" | wc -l) devices"
dray doctor
