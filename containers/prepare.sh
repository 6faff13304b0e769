#!/bin/sh
# Two folders with a job, made-up tables and certificates, as two organisations would make them: to try the programs.
#   prepare.sh BANK SHOP ADDRESS
set -eu
bank=$1
shop=$2
address=$3
plait init "$bank" --name bank --example --address "$address"
(cd "$bank" && plait cert init bank)
mkdir -p "$shop/certs"
cp "$bank/job.toml" "$shop/"
cp "$bank/certs/ca.crt" "$shop/certs/"
plait init "$shop" --name shop --job "$shop/job.toml" --example
(cd "$shop" && plait cert request shop)
cp "$shop/certs/shop.csr" "$bank/"
(cd "$bank" && plait cert sign shop.csr --yes)
cp "$bank/certs/shop.crt" "$shop/certs/"
if [ "$(id -u)" = 0 ]; then chown -R 10001:10001 "$bank" "$shop"; fi
