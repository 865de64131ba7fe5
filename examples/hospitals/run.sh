#!/usr/bin/env bash
# One run, started where the server is: a line for each round or question, then the private mean and its privacy report.
#   ./run.sh [the agreement: agreement.toml, or another one, whose name is then in the names of the results]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
file=${1:-agreement.toml}
of=$(suffix "$file")
flwr run app lo --stream \
  --run-config "agreement=\"$PWD/$file\" result-path=\"$PWD/result$of.npz\" state-path=\"$PWD/state$of\""
rm -f "report$of.html" "report$of.json"
riemdp federated report "$file" "result$of.npz" --out "report$of.html"
