#!/usr/bin/env bash
# Certificates for one run: an authority, the server's certificate; for each hospital a key pair, by which the server knows it, and a
# certificate for the connection between its own processes on its own machine.
#   ./make_certificates.sh [folder] [server name or address] [number of hospitals]
# In production every hospital makes its own (see "On several machines" in README.md) and sends only the .pub file to the server.
set -euo pipefail
folder=${1:-certificates}
server=${2:-127.0.0.1}
hospitals=${3:-3}
umask 077
mkdir -p "$folder"
cd "$folder"
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -new -key ca.key -sha256 -days 365 -subj "/CN=riemdp federated authority" -out ca.crt
certificate() {  # file stem, name or address
  local kind=DNS
  [[ $2 =~ ^[0-9.]+$ ]] && kind=IP
  openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"
  printf 'subjectAltName=%s:%s\n' "$kind" "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -sha256 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm -f "$1.csr" "$1.ext" ca.srl
}
certificate server "$server"
for i in $(seq 0 $((hospitals - 1))); do
  [ -f "hospital-$i" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "hospital-$i" -f "hospital-$i"
  certificate "local-$i" 127.0.0.1
done
echo "certificates and keys are in $PWD"
