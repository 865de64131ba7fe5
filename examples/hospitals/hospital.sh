#!/usr/bin/env bash
# What one hospital runs, until Ctrl-C:  ./hospital.sh 0 [name or address of the server]
# Its node runs no other code than the app in this folder, and answers within its own site-0.toml only.
set -euo pipefail
. "$(dirname "$0")/environment.sh"
i=$1
server=${2:-127.0.0.1}
[ -f "records-$i.npy" ] || python prepare.py "$i" "records-$i.npy"      # your own records go here
[ -f "site-$i.toml" ] || sed "s/-0/-$i/g" site.toml > "site-$i.toml"    # read it: it is what you agree to
authority=certificates/ca.crt
if [ -f server-ca.crt ]; then authority=server-ca.crt; fi                # from the operator of a server elsewhere
riemdp federated status "site-$i.toml"                                   # a mistake in a file ends it here
riemdp federated check "site-$i.toml" --port "1910$i"                    # and so does one in its records, told here alone
look() { riemdp federated check "site-$i.toml" --server "$server:19092" --authority "$authority" || true; }
look                                                                     # a server that is not there yet is waited for
place=$(mktemp -d)
bundle=$(cd "$place" && flwr build --app "$OLDPWD/app" > /dev/null && cat ./*.fab | sha256sum | cut -c 1-64)
rm -r "$place"
node=
trap '[ -z "$node" ] || { kill "$node" 2> /dev/null; wait "$node"; }; exit' INT TERM
ends=()                              # when nodes ended that nobody asked to end, in seconds since this script was started
refused=0                            # how many of the last ones ended at once
while true; do
  begin=$SECONDS
  python -m riemdp.federated.flower.supernode --bundle "$bundle" \
    --root-certificates "$authority" --superlink "$server:19092" \
    --auth-supernode-private-key "certificates/hospital-$i" --host 127.0.0.1 --port "1910$i" \
    --ssl-ca-certfile certificates/ca.crt --ssl-certfile "certificates/local-$i.pem" --ssl-keyfile "certificates/local-$i.key" \
    --node-config "site=\"$PWD/site-$i.toml\"" &
  node=$!
  wait "$node" || true
  node=
  refused=$((SECONDS - begin < 60 ? refused + 1 : 0))
  recent=()
  for end in ${ends[@]+"${ends[@]}"}; do
    if [ $((SECONDS - end)) -lt 3600 ]; then recent+=("$end"); fi
  done
  ends=(${recent[@]+"${recent[@]}"} "$SECONDS")
  if [ ${#ends[@]} -gt 5 ]; then
    echo "The node ended for the sixth time within an hour, and is not started again. Read what it said above; then start this script."
    exit 1
  fi
  look    # the reason, where it is known
  if [ $refused -gt 1 ]; then
    echo "Where nothing is wrong above, the server does not know this hospital's key: send certificates/hospital-$i.pub to its operator."
  fi
  echo "The node ended, and nobody asked it to. It is started again in 65 s: until then the server counts the last one as present."
  sleep 65 &
  wait $!
done
