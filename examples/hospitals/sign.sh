#!/usr/bin/env bash
# Signs an agreement that has been read: its fingerprint and a new file of answers go into site-0.toml. The node need not be started
# again. The ledger stays: it belongs to the records.
#   ./sign.sh agreement-search.toml [the number of the hospital; without it, all three on this machine]
set -euo pipefail
. "$(dirname "$0")/environment.sh"
file=$1
of=$(suffix "$file")
signed=$(sha256sum "$file" | cut -c 1-64)
template=site.toml
if grep -q '^\[search\]' "$file"; then template=site-search.toml; fi
key=
if grep -q '^key = ' "$file"; then key=yes; fi
for i in ${2:-0 1 2}; do
  if [ -f "site-$i.toml" ]; then mv "site-$i.toml" "site-$i-before.toml"; fi
  sed -e "s/-0/-$i/g" -e "s/^agreement = \"[0-9a-f]*\"/agreement = \"$signed\"/" \
    -e "s/^agreement = \"agreement.*\.toml\"/agreement = \"$file\"/" \
    -e "s/^answers = \"answers.*\.json\"/answers = \"answers$of-$i.json\"/" \
    -e "${key:+s/^ledger = .*/&\nkey = \"sum-$i.key\"/}" "$template" > "site-$i.toml"
  echo "site-$i.toml signs $file: $signed"
done
