#!/bin/sh
# Makes the certificates of security_tls.rs again, in this folder. The keys are for tests only.
set -e
cd "$(dirname "$0")"
rm -f ./*.pem ./*.key
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"; }

# authority NAME
authority() {
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"
    openssl req -x509 -new -key "$work/$1.key" -days 36500 -subj "/CN=$1" -out "$1.pem"
}

# certificate NAME AUTHORITY NAMES FROM TO
certificate() {
    printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nnew_certs_dir=%s\nrand_serial=yes\npolicy=p\n' "$work" "$work" > "$work/conf"
    printf 'default_md=sha256\nunique_subject=no\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=%s\n' "$3" >> "$work/conf"
    printf 'basicConstraints=CA:FALSE\n' >> "$work/conf"
    : > "$work/index"
    openssl req -new -key process.key -subj "/CN=$1" -out "$work/request"
    openssl ca -batch -notext -config "$work/conf" -extensions e -in "$work/request" -cert "$2.pem" \
        -keyfile "$work/$2.key" -startdate "$4" -enddate "$5" -out "$1.pem"
}

key process
key other
authority ours
authority theirs
here=DNS:localhost,DNS:job.test,IP:127.0.0.1
certificate good ours "$here" 20200101000000Z 21200101000000Z
certificate foreign theirs "$here" 20200101000000Z 21200101000000Z
certificate expired ours "$here" 20200101000000Z 20210101000000Z
certificate elsewhere ours DNS:elsewhere.test 20200101000000Z 21200101000000Z
cat ours.pem theirs.pem > both.pem
rm theirs.pem
