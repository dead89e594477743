#!/bin/sh
# enter.sh FOLDER HOOK COMMAND...: run a command as in a container with a share. In a mount namespace
# of its own (`unshare --mount enter.sh ...`): the host's files are only covered, never changed.
set -eu
folder=$1
hook=$2
shift 2

# /etc and /run with a layer of our own on top, which ends with the namespace
layers=$folder/layers
mkdir -p "$layers"
mount -t tmpfs -o mode=755 tmpfs "$layers"
for place in etc run; do
  mkdir "$layers/$place" "$layers/$place.work"
  options=lowerdir=/$place,upperdir=$layers/$place,workdir=$layers/$place.work
  mount -t overlay -o "$options" overlay "/$place"
done

mkdir -p /etc/vcuda /run/vcuda
for file in etc/vcuda/limits etc/vcuda/activity run/vcuda/ledger; do
  : >"/$file"
  mount --bind "$folder/${file##*/}" "/$file"
done
for file in limits activity; do
  mount -o remount,bind,ro "/etc/vcuda/$file"
done

# every program that is started from here on has the hook in it
echo "$hook" >/etc/ld.so.preload
exec "$@"
