#!/usr/bin/env bash
# What one hospital runs, until Ctrl-C:  ./hospital.sh 0 [name or address of the server]
# Its node runs no other code than the app in this folder, and answers within its own site-0.toml only.
set -euo pipefail
. "$(dirname "$0")/environment.sh"
i=$1
server=${2:-127.0.0.1}
[ -f "records-$i.npy" ] || python prepare.py "$i" "records-$i.npy"      # your own records go here
[ -f "site-$i.toml" ] || sed "s/-0/-$i/g" site.toml > "site-$i.toml"    # read it: it is what you agree to
riemdp federated status "site-$i.toml"                                   # a mistake in a file ends it here
place=$(mktemp -d)
bundle=$(cd "$place" && flwr build --app "$OLDPWD/app" > /dev/null && cat ./*.fab | sha256sum | cut -c 1-64)
rm -r "$place"
authority=certificates/ca.crt
if [ -f server-ca.crt ]; then authority=server-ca.crt; fi                # from the operator of a server elsewhere
trap 'kill $node 2> /dev/null; wait $node; exit' INT TERM
for pause in 15 15 15 15 15 0; do    # a node that was killed counts as present for a minute, and the next one is not let in before
  begin=$SECONDS
  python -m riemdp.federated.flower.supernode --bundle "$bundle" \
    --root-certificates "$authority" --superlink "$server:19092" \
    --auth-supernode-private-key "certificates/hospital-$i" --host 127.0.0.1 --port "1910$i" \
    --ssl-ca-certfile certificates/ca.crt --ssl-certfile "certificates/local-$i.pem" --ssl-keyfile "certificates/local-$i.key" \
    --node-config "site=\"$PWD/site-$i.toml\"" &
  node=$!
  if wait $node; then exit; fi
  if [ $((SECONDS - begin)) -gt 60 ] || [ $pause = 0 ]; then exit 1; fi
  echo "The server does not let this node in. If it was started a moment ago, it will be; trying again in $pause s."
  sleep $pause
done
