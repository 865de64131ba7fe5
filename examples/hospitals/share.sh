#!/usr/bin/env bash
# For a run with less noise in the mean: the hospitals share it. Writes shared.toml, which is agreement.toml with the public keys of
# the hospitals and the words for shared noise, and signs it for each of them. This is for all three on one machine; README.md says
# what each does on its own.
set -euo pipefail
. "$(dirname "$0")/environment.sh"
for i in 0 1 2; do
  [ -f "sum-$i.key" ] || riemdp federated key "sum-$i.key" > "sum-$i.pub"      # the private key stays at hospital i
done
{
  sed -e 's/first run/shared noise/' -e 's/^agents-per-round = 2/agents-per-round = 3/' \
    -e 's/^delta = .*/&\nnoise = "shared"\ntolerated = 1                          # how many may be missing, or collude/' \
    -e '/^\[\[site\]\]/,$d' agreement.toml
  for i in 0 1 2; do
    printf '[[site]]\nname = "hospital-%s"\nkey = "%s"\n' "$i" "$(cat "sum-$i.pub")"
  done
} > shared.toml
signed=$(sha256sum shared.toml | cut -c 1-64)
for i in 0 1 2; do                                                           # the ledger stays: it belongs to the records
  if [ -f "site-$i.toml" ]; then mv "site-$i.toml" "site-$i-before.toml"; fi
  sed -e "s/-0/-$i/g" -e "s/^agreement = \"[0-9a-f]*\"/agreement = \"$signed\"/" -e 's/"agreement.toml"/"shared.toml"   /' \
    -e "s/^answers = \"answers-$i.json\"/answers = \"answers-shared-$i.json\"/" \
    -e "s/^ledger = .*/&\nkey = \"sum-$i.key\"/" site.toml > "site-$i.toml"
done
echo "shared.toml is signed by all three: $signed"
