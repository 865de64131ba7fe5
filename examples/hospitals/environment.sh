# Sourced by the other scripts. Nothing is reported to anybody, and the engine keeps its files in this folder.
cd "$(dirname "${BASH_SOURCE[0]}")"
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=$PWD/flwr-home FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.2
