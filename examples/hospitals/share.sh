#!/usr/bin/env bash
# For a run with less noise in the mean: the hospitals share it. Writes shared.toml, which is agreement.toml with the public keys of
# the hospitals and the words for shared noise, and signs it for each of them. This is for all three on one machine; README.md says
# what each does on its own.
#   ./share.sh [another agreement, such as agreement-search.toml: then it writes shared-search.toml]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
file=${1:-agreement.toml}
shared=shared$(suffix "$file").toml
words=(-e 's/first run/shared noise/' -e 's/^agents-per-round = 2/agents-per-round = 3/'
  -e 's/^delta = .*/&\nnoise = "shared"\ntolerated = 1                          # how many may be missing, or collude/')
for i in 0 1 2; do
  [ -f "sum-$i.key" ] || riemdp federated key "sum-$i.key" > "sum-$i.pub"      # the private key stays at hospital i
  words+=(-e "s/^name = \"hospital-$i\"/&\nkey = \"$(cat "sum-$i.pub")\"/")
done
sed "${words[@]}" "$file" > "$shared"
./sign.sh "$shared"
