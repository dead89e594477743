"""Ways through the files of a share: limits, ledger, environment, mounts."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys

import pytest

from gpustack.adapters import mapped
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.agent.violations.reactions import DAMAGED, FOREIGN
from gpustack.wire.kube.mount_paths import hiding_mount
from gpustack.wire.mapped import activity
from gpustack.wire.mapped.ledger import CARDS_OFFSET
from gpustack.wire.mapped.limits import Limits
from gpustack.wire.mapped.two_slot_page import LayoutError
from gpustack.wire.mount_request import FOLDER
from tests.agent.mounts.namespace import alone, helper
from tests.hook.container import CARD, CARD_BYTES, CONTEXT_BYTES, MIB, SHARE_BYTES, share
from tests.hook.escapes.ways_out import (
    SHARE,
    Outcome,
    escape,
    own_share,
    reports_of,
    unaccounted_bytes,
)
from tests.hook.root import Root

pytestmark = pytest.mark.long
UID = "6f1a2b3c-0000-4000-8000-123456789abc"


@escape(
    "Zeroes or noise over the whole ledger, or its end cut off",
    Outcome.REPORTED,
    "the agent trusts nothing in it: it sends the event LedgerDamaged, and all memory that the"
    " driver sees counts against the share",
)
@pytest.mark.parametrize("damage", ["zeroes", "cut", "noise"])
def test_a_scribbled_ledger_is_reported_and_the_share_holds(root: Root, damage: str) -> None:
    ledger = root.folder / "etc/vcuda/ledger"
    with root.start("/bin/client", "soname", "1000", "hold") as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "2048 0"
        size = ledger.stat().st_size
        with ledger.open("r+b") as file:
            file.write({"zeroes": bytes(size), "cut": b"", "noise": os.urandom(size)}[damage])
        if damage == "cut":
            os.truncate(ledger, 100)
        events: list[ObjectEvent] = []
        with pytest.raises(LayoutError) as error:
            mapped.read_ledger(ledger)
        IsolationViolations(events.append, hooks=root.folder).ledger_is_damaged(
            SHARE, str(error.value)
        )
        assert [event.reason for event in events] == [DAMAGED]
        assert root.seen_bytes(client.pid) == CONTEXT_BYTES + 1000 * MIB
        client.kill()


@escape(
    "Clearing the ledger's sum while the processes' own figures stay honest",
    Outcome.CLOSED,
    "a request counts the processes' own figures beside the sum, and the larger decides; the agent"
    " sends the event LedgerDamaged, and takes the smaller off what the driver sees, so that the"
    " rest counts against the share",
)
def test_a_cleared_sum_grants_nothing(root: Root) -> None:
    ledger = root.folder / "etc/vcuda/ledger"
    with root.start("/bin/client", "soname", "1800", "hold") as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "2048 0"
        with ledger.open("r+b") as file:
            file.seek(CARDS_OFFSET + 16)
            (word,) = struct.unpack("<Q", file.read(8))
            file.seek(CARDS_OFFSET + 16)
            file.write(struct.pack("<Q", word >> 36 << 36))
        reading = mapped.read_ledger(ledger)
        assert reading.false_sums == (CARD,)
        assert reading.charged_bytes(CARD) == 0
        assert root.run("/bin/client", "soname", "1800") != "2048 0"
        assert mapped.read_ledger(ledger).cards[0].used_bytes == CONTEXT_BYTES + 1800 * MIB
        client.communicate("\n", timeout=30)


@escape(
    "A lease (fcntl F_SETLEASE) by the container's root on the files that are mounted into it, to"
    " keep the agent and the container's programs waiting",
    Outcome.CLOSED,
    "the kernel gives none on a file that is open for writing: the agent has each of them open from"
    " before the container starts, and systemd keeps them so while the agent restarts. On a host"
    " of the role gpustack_agent the kernel gives no lease at all, unless the inventory wants them",
)
def test_no_lease_is_given_on_a_containers_files(root: Root) -> None:
    folder = own_share(root, root.folder.parent / "share").folder
    held = HeldFiles(DescriptorStore())
    held.hold(folder)
    asked = (
        "import fcntl, os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):\n"
        "        try:\n"
        "            fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, kind)\n"
        "            print('given')\n"
        "        except OSError:\n"
        "            print('refused')\n"
    )
    paths = [folder / name for name in mapped.FORMS]
    given = subprocess.check_output([sys.executable, "-c", asked, *paths], text=True)
    assert given.split() == ["refused"] * 6
    held.close()


@escape(
    "Making the ledger grow: any user of the container may write to it",
    Outcome.CLOSED,
    "each container's files lie on a tmpfs of exactly their size, which takes no more bytes and no"
    " further file. A pod that gpustack 0.1.0 started has them on the host's disk until it ends",
)
@pytest.mark.parametrize(
    "command",
    [
        ["dd", "if=/dev/zero", "bs=1", "count=1", "oflag=append", "conv=notrunc"],
        ["dd", "if=/dev/zero", "bs=1M", "count=64", "seek=100", "conv=notrunc"],
        ["fallocate", "--length=512MiB"],
        ["fallocate", "--keep-size", "--offset=1MiB", "--length=4KiB"],
    ],
    ids=["append", "beyond a hole", "fallocate", "blocks beyond the end"],
)
def test_a_ledger_takes_no_byte_beyond_its_size(tmp_path: pathlib.Path, command: list[str]) -> None:
    def body() -> None:
        (tmp_path / FOLDER / UID / "c0").mkdir(parents=True)
        folder = tmp_path / FOLDER / UID / "c0"
        with helper(tmp_path) as mounting:
            mounting.make(UID, "c0")
        mapped.create_limits(folder / "limits", Limits(devices=()))
        mapped.create_activity(folder / "activity", activity.Activity(sampled_ns=0, cards=()))
        mapped.create_ledger(folder / "ledger", [CARD])
        ledger = folder / "ledger"
        ledger.write_bytes(ledger.read_bytes())  # all of its blocks
        target = f"of={ledger}" if command[0] == "dd" else str(ledger)
        refused = subprocess.run([*command, target], check=False, capture_output=True, text=True)
        assert "No space left on device" in refused.stderr
        free = os.statvfs(folder)
        assert (free.f_bfree, free.f_ffree) == (0, 0)

    alone(body)


@escape(
    "chmod, chown, truncate or fallocate on the ledger by the container's root: a program in it"
    " with mode 4755 would make a local user root",
    Outcome.REPORTED,
    "no user but root gets to the file on the host; the agent restores mode and size within"
    " two seconds, or when a write to it ends that keeps the kernel waiting, and sends the event"
    " LedgerDamaged, as it does where the ledger has another owner",
)
@pytest.mark.parametrize(
    "command", [["chmod", "4755"], ["chown", "1000:1000"], ["truncate", "--size=64MiB"]]
)
def test_a_changed_form_of_the_ledger_is_restored_and_reported(
    root: Root, command: list[str]
) -> None:
    folder = own_share(root, root.folder.parent / "share").folder
    held = HeldFiles(DescriptorStore())
    held.hold(folder)
    before = (folder / "ledger").stat()
    subprocess.run([*command, folder / "ledger"], check=True)
    events: list[ObjectEvent] = []
    violations = IsolationViolations(events.append, hooks=root.folder)
    for what, how in held.restore(folder).items():
        violations.form_was_changed(SHARE, what, how)
    held.close()
    assert [event.reason for event in events] == [DAMAGED]
    after = (folder / "ledger").stat()
    for field in ("st_mode", "st_size"):
        assert getattr(after, field) == getattr(before, field)


@escape(
    "Files of the tenant's own for limits, activity page or ledger: root in the container moves the"
    " folder aside that ours are mounted in, or an image's or a volume's link leads a volume there",
    Outcome.REPORTED,
    "the event ForeignLimits: the agent looks which files the hook maps, by filesystem and inode",
)
@pytest.mark.parametrize(
    ("replaced", "limits_bytes", "seen"),
    [
        ([*mapped.FORMS], CARD_BYTES, "8192 0"),
        ([*mapped.FORMS], SHARE_BYTES, "2048 0"),
        (["activity"], 0, "2048 0"),
    ],
)
def test_files_in_the_place_of_ours_are_reported(
    root: Root, tmp_path: pathlib.Path, replaced: list[str], limits_bytes: int, seen: str
) -> None:
    ours = own_share(root, tmp_path / "share")

    def run(expected: str) -> list[str]:
        with root.start("/bin/client", "soname", "1000", "hold") as client:
            assert client.stdout is not None
            assert client.stdout.readline().strip() == expected
            reports = reports_of(root, client.pid, share=ours)
            client.communicate("\n", timeout=30)
        return reports

    assert run("2048 0") == []
    aside, place = root.folder / "etc/aside", root.folder / "etc/vcuda"
    place.rename(aside)
    place.mkdir()
    for name in {"hook", *mapped.FORMS}.difference(replaced):
        (place / name).symlink_to(f"../aside/{name}")
    for name in replaced:
        shutil.copy(aside / name, place / name)
    if limits_bytes:
        mapped.publish_limits(place / "limits", share(limits_bytes))
    assert run(seen) == [FOREIGN]


@escape(
    "A ledger set back, as a whole, to a state without a charge",
    Outcome.CLOSED,
    "the agent compares it with the driver; the difference (unaccounted) is taken off the"
    " share's free memory",
)
def test_memory_that_a_false_ledger_hides_is_taken_off_the_share(root: Root) -> None:
    ledger = root.folder / "etc/vcuda/ledger"
    fresh = ledger.read_bytes()
    with root.start("/bin/client", "soname", "1000", "hold") as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "2048 0"
        with ledger.open("r+b") as file:
            file.write(fresh)  # as if nothing had been charged
        hidden = unaccounted_bytes(root, client.pid)
        assert hidden == CONTEXT_BYTES + 1000 * MIB
        seen = activity.CardActivity(uuid=CARD, unaccounted_bytes=hidden)
        page = activity.Activity(sampled_ns=1, cards=(seen,))
        mapped.publish_activity(root.folder / "etc/vcuda/activity", page)
        assert root.run("/bin/client", "soname", "1000") == "2048 2"
        assert root.run("/bin/client", "soname", "900") == "2048 0"
        client.communicate("\n", timeout=30)


@escape(
    "Limits by environment variables, or claiming another container's",
    Outcome.CLOSED,
    "the hook reads no environment and speaks to no server: limits come by a read-only mount",
)
def test_the_hook_calls_no_function_for_environment_or_sockets(build: pathlib.Path) -> None:
    hook = build / "x86_64" / "libvcuda.so"
    listed = subprocess.check_output(["nm", "-D", "--undefined-only", hook], text=True)
    needed = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert "__cxa_atexit" in needed  # the list is one
    assert not needed & {"getenv", "secure_getenv", "environ", "__environ", "socket", "connect"}


@escape(
    "A ConfigMap, any volume or a terminationMessagePath over the limits, the hook or the preload,"
    " or at a folder above them, which a sidecar may have, too, and take our mount points away in",
    Outcome.CLOSED,
    "the admission policy refuses the pod, and so does the agent at Allocate (HiddenPath)",
)
@pytest.mark.parametrize(
    "path",
    [
        "/etc/vcuda", "/etc/vcuda/limits", "/etc/vcuda/limits/", "//etc/vcuda", "/tmp/../etc/vcuda",
        "etc/vcuda", "/etc/ld.so.preload", "/etc/vcuda/hook", "/etc/vcuda/ledger",
        "/usr/local/nvidia/lib64/libcuda.so.1", "/", "/etc", "/etc/", "/etc/.", ".",
        "/proc/self/root/etc/vcuda", "/proc/thread-self/root/etc", "//proc/./1/root/etc/vcuda/x",
    ],
)  # fmt: skip
def test_mounts_over_our_paths_are_refused(path: str) -> None:
    mounts = [{"name": "config", "mountPath": path}]
    for name, value in (("volumeMounts", mounts), ("terminationMessagePath", path)):
        pod = {"spec": {"containers": [{"name": "main", name: value}]}}
        assert hiding_mount(pod, "main", is_share=True) == f"{name} {path}"
    harmless = {"name": "main", "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}]}
    assert hiding_mount({"spec": {"containers": [harmless]}}, "main", is_share=True) is None


@escape(
    "Limits removed, emptied or replaced by noise (as root in the container, on a host that let"
    " that happen)",
    Outcome.CLOSED,
    "without readable limits every request is refused with CUDA_ERROR_NOT_PERMITTED",
)
@pytest.mark.parametrize("content", [None, b"", os.urandom(4096)], ids=["none", "empty", "noise"])
def test_every_grant_needs_readable_limits(root: Root, content: bytes | None) -> None:
    limits = root.folder / "etc/vcuda/limits"
    limits.unlink()
    if content is not None:
        limits.write_bytes(content)
    assert root.run("/bin/client", "soname", "1") == "0 800"
