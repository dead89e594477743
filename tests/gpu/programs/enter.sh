#!/bin/sh
# enter.sh FOLDER HOOK COMMAND...: run a command as in a container with a share. In a mount namespace
# of its own (`unshare --mount enter.sh ...`): the host's files are only covered, never changed.
set -eu
folder=$1
hook=$2
shift 2

# /etc with a layer of our own on top, which ends with the namespace
layers=$folder/layers
mkdir -p "$layers"
mount -t tmpfs -o mode=755 tmpfs "$layers"
mkdir "$layers/etc" "$layers/etc.work"
mount -t overlay -o "lowerdir=/etc,upperdir=$layers/etc,workdir=$layers/etc.work" overlay /etc

mkdir -p /etc/vcuda
for file in limits activity ledger; do
  : >"/etc/vcuda/$file"
  mount --bind "$folder/$file" "/etc/vcuda/$file"
done
for file in limits activity; do
  mount -o remount,bind,ro "/etc/vcuda/$file"
done

# every program that is started from here on has the hook in it
echo "$hook" >/etc/ld.so.preload
exec "$@"
