#!/bin/sh
# Lets the driver crash while it prepares claims, kills the whole cluster with -9, again and again, and
# looks at what is left.
set -eu
here=$(dirname "$0")
data=$(mktemp -d /tmp/dray-XXXXXX)
export KUBECONFIG="$data/kubeconfig"
trap 'dray down --data "$data" > "$data/log" 2>&1; rm -rf "$data"' EXIT

start() {
  : > "$data/log"
  dray up --fleet h100 --nodes 1 --listen 127.0.0.1:0 --data "$data" > "$data/log" 2>&1 &
  process=$!
  until grep -q '^dray is up' "$data/log"; do sleep 0.1; done
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
until [ "$(dray get statefulset survivor -o jsonpath='{.status.readyReplicas}')" = 6 ]; do sleep 0.2; done

devices='{range .items[*].status.allocation.devices.results[*]}{.pool}/{.device}{"\n"}{end}'
dray get resourceclaims -o jsonpath="$devices" | sort > "$data/held"
echo "killed 3 times; $(wc -l < "$data/held") claims have $(sort -u "$data/held" | wc -l) devices"
dray doctor
