#!/usr/bin/env bash
# One run, started where the server is: a line for each round or question, then the private mean and its privacy report. Ctrl-C ends
# the run at the server, too.
#   ./run.sh [the agreement: agreement.toml, or another one, whose name is then in the names of the results]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
file=${1:-agreement.toml}
of=$(suffix "$file")
config="agreement=\"$PWD/$file\" result-path=\"$PWD/result$of.npz\" state-path=\"$PWD/state$of\""
started=$(flwr run app lo --format json --run-config "$config") || { echo "$started"; exit 1; }
run=$(sed -nE 's/.*"run-id": "?([0-9]+).*/\1/p' <<< "$started")
if [ -z "$run" ]; then echo "$started"; exit 1; fi
ended() {
  kill $(jobs -p) || true
  flwr stop "$run" lo > /dev/null || true
  echo "The run was ended. What the hospitals have answered is charged; the same command goes on from state$of."
  exit 130
}
trap ended INT TERM HUP
flwr log "$run" lo --stream &
wait $!
[ -f "result$of.npz" ] || exit 1    # what ended the run stands above
rm -f "report$of.html" "report$of.json"
riemdp federated report "$file" "result$of.npz" --out "report$of.html"
