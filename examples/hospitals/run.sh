#!/usr/bin/env bash
# One run, started where the server is: a line for each round, then the private mean and its privacy report.
set -euo pipefail
. "$(dirname "$0")/environment.sh"
flwr run app lo --stream \
  --run-config "agreement=\"$PWD/agreement.toml\" result-path=\"$PWD/result.npz\" state-path=\"$PWD/state.npz\""
riemdp federated report agreement.toml result.npz --out report.html
