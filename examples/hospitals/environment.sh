# Sourced by the other scripts. Nothing is reported to anybody, and the engine keeps its files in this folder.
cd "$(dirname "${BASH_SOURCE[0]}")"
export JAX_COMPILATION_CACHE_DIR=$PWD/flwr-home/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0    # compile once, not per message
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME=$PWD/flwr-home FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.2
suffix() { basename "$1" .toml | sed -E 's/^agreement//; s/^[^-]/-&/'; }    # of the files of a run: "" for agreement.toml
