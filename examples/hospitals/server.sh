#!/usr/bin/env bash
# The server, until Ctrl-C: TLS on every connection, and only the hospitals' registered keys are let in.
#   ./server.sh [name or address of this machine]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
host=${1:-127.0.0.1}
[ -d certificates ] || ./make_certificates.sh certificates "$host" 3
mkdir -p "$FLWR_HOME"
printf '[superlink]\ndefault = "lo"\n\n[superlink.lo]\naddress = "%s:19092"\nroot-certificates = "%s"\n' \
  "$host" "$PWD/certificates/ca.crt" > "$FLWR_HOME/config.toml"
flower-superlink --ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.pem \
  --ssl-keyfile certificates/server.key --enable-supernode-auth --disable-runtime-dependency-installation \
  --host "$host" --port 19092 &
server=$!
trap 'kill $server 2>/dev/null; wait $server' EXIT
until flwr supernode list lo > /dev/null 2>&1; do
  kill -0 $server
  sleep 1
done
for key in certificates/hospital-*.pub; do flwr supernode register "$key" lo; done
echo "The server is ready. Every hospital may start its node now; then start the run."
wait $server
