"""What the kernel says of processes, as the role reads it, below a folder `proc` of a fake host."""

import pathlib

# The UID that a kubelet makes for a static pod, and cgroups of such a pod and of one of a user.
HASH = "0123456789abcdef" * 2
STATIC_POD = f"/kubepods/burstable/pod{HASH}/{'c' * 64}"
USERS_POD = f"/kubepods/burstable/pod01234567-89ab-cdef-0123-456789abcdef/{'c' * 64}"


def lay_process(
    folder: pathlib.Path, pid: int, cgroup: str = STATIC_POD, command: tuple[str, ...] = ()
) -> None:
    """Lay what the kernel says of a process below `folder`/proc: what it does, but for its cgroup.

    Args:
        folder: of the host.
        pid: of the process, or of none where `command` says what it runs, as root.
        cgroup: where it is; by default a static pod's.
        command: its words.
    """
    place = folder / "proc" / str(pid)
    place.mkdir(parents=True)
    (place / "cgroup").write_text(f"0::{cgroup}\n")
    if command:
        (place / "comm").write_text(f"{pathlib.Path(command[0]).name}\n")
        (place / "cmdline").write_text("\0".join((*command, "")))
        (place / "status").write_text("Uid:\t0\t0\t0\t0\n")
        return
    for name in ("comm", "cmdline", "status"):
        (place / name).symlink_to(f"/proc/{pid}/{name}")
