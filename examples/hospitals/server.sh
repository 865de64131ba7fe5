#!/usr/bin/env bash
# The server, until Ctrl-C: TLS on every connection, and only the hospitals' registered keys are let in.
#   ./server.sh [name or address of this machine]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
host=${1:-127.0.0.1}
[ -d certificates ] || ./make_certificates.sh certificates "$host" 3
for file in certificates/ca.crt certificates/server.pem; do
  if ! openssl x509 -in "$file" -noout -checkend 0 > /dev/null; then
    echo "$file has expired. Move certificates/*.crt, *.key and *.pem away, run ./make_certificates.sh certificates $host 3 (the keys of" \
      "hospitals stay), and send ca.crt to every hospital."
    exit 1
  fi
done
if ! openssl x509 -in certificates/server.pem -noout -checkend 2592000 > /dev/null; then
  echo "certificates/server.pem expires within 30 days: make new ones with ./make_certificates.sh before that."
fi
kind=-checkhost
if [[ $host =~ ^[0-9.]+$ ]]; then kind=-checkip; fi
if ! openssl x509 -in certificates/server.pem -noout "$kind" "$host" | grep -q "does match"; then
  echo "certificates/server.pem was made for another name than $host. Give that name, or make one: ./make_certificates.sh certificates $host 3"
  exit 1
fi
if (exec 3<> "/dev/tcp/$host/19092") 2> /dev/null; then
  echo "Port 19092 of $host is in use: a server runs already, or another program. End it first."
  exit 1
fi
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
