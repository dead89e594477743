#!/bin/sh
# Finish the hosts' root: mmdebstrap runs this outside, with the new root as $1.
set -eu
root=$1

# Hosts have no console; a getty on one fails in some parallel starts and leaves the host "degraded".
for unit in getty@tty1.service console-getty.service getty-static.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# The kernel is this machine's: at its shutdown a host would unregister this machine's formats.
for unit in systemd-binfmt.service proc-sys-fs-binfmt_misc.automount; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# Each host enables the services of its own role.
for unit in containerd.service etcd.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
    chroot "$root" systemctl disable --quiet "$unit" || true
done

# podman gives name and addresses; what mmdebstrap copied from this machine would only mislead.
rm -f "$root/etc/hostname" "$root/etc/resolv.conf"
: > "$root/etc/machine-id"

# A customer's GPU host may have no way to Debian's archive, so what a role installs has to come
# from a repository that the role names itself.
mv "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.unused"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin

# Every container of a GPU host sees the simulated driver's state. This is the testbed's doing, so
# that the product need not know of it: containerd starts each container from this specification.
mkdir -p "$root/etc/containerd"
chroot "$root" ctr oci spec | python3 -c '
import json, sys
spec = json.load(sys.stdin)
state = "/var/lib/simgpu"
spec["mounts"].append(
    {"destination": state, "type": "bind", "source": state, "options": ["rbind", "rw"]}
)
json.dump(spec, sys.stdout, indent=1)
' > "$root/etc/containerd/base-runtime-spec.json"
