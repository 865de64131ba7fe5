#!/usr/bin/env bash
# Certificates for one run: an authority, the server's certificate, and one key pair for each hospital.
#   ./make_certificates.sh [folder] [server name or address] [number of hospitals]
# In production every hospital makes its own key pair (last step) and sends only the .pub file to the server's operator.
set -euo pipefail
folder=${1:-certificates}
server=${2:-127.0.0.1}
hospitals=${3:-3}
umask 077
mkdir -p "$folder"
cd "$folder"
kind=DNS
[[ $server =~ ^[0-9.]+$ ]] && kind=IP
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -new -key ca.key -sha256 -days 365 -subj "/CN=riemdp federated authority" -out ca.crt
openssl ecparam -name prime256v1 -genkey -noout -out server.key
openssl req -new -key server.key -subj "/CN=$server" -out server.csr
printf 'subjectAltName=%s:%s\n' "$kind" "$server" > server.ext
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -sha256 -extfile server.ext -out server.pem 2>/dev/null
rm -f server.csr server.ext ca.srl
for i in $(seq 0 $((hospitals - 1))); do
  [ -f "hospital-$i" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "hospital-$i" -f "hospital-$i"
done
echo "certificates and keys are in $PWD"
