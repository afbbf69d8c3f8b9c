#!/bin/sh
# A file system in a folder, for commands of the client.
shift
while [ "${1#-D}" != "$1" ]; do shift; done
verb=$1; shift
root=$(dirname "$(dirname "$0")")/root
missing() { echo "$verb: \`$1': No such file or directory" >&2; exit 1; }
line() {
  kind=-; [ -d "$root$1" ] && kind=d
  echo "${kind}rw-r--r-- 1 me us $(stat -c %s "$root$1") 2026-11-17 15:30 $1"
}
case $verb in
  -ls)
    if [ "$1" = -d ]; then [ -e "$root$2" ] || missing "$2"; line "$2"; exit; fi
    [ -e "$root$1" ] || missing "$1"
    if [ -f "$root$1" ]; then line "$1"; exit; fi
    echo "Found some items"
    for f in "$root$1"/*; do [ -e "$f" ] && line "$1/$(basename "$f")"; done; exit 0;;
  -mkdir) mkdir -p "$root$2";;
  -rm) rm -rf "$root$3";;
  -mv) mv "$root$1" "$root$2";;
  -cat) [ -e "$root$1" ] || missing "$1"; cat "$root$1";;
  -get) cp -r "$root$1" "$2";;
  -put) cp "$2" "$root$3";;
  *) echo "unknown $verb" >&2; exit 255;;
esac
