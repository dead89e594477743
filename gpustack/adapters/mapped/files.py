"""The mapped files: create, publish and read limits and activity; what all three share.

They are made complete under a temporary name and renamed into place before a container starts;
from then on they are only written in place, since a file that is mounted into a container doesn't
follow a rename. Pages are written through a mapping: a write would wait for the inode's lock, which
a tenant that reads its page (O_DIRECT, into memory that comes slowly) holds for as long as it
likes. The ledger is never mapped here: a tenant may truncate it. No open follows a link or waits:
root in a container may hold a lease on a file of its own, for which the kernel would block an open
for `fs.lease-break-time` (45 s); that is a BlockingIOError.
"""

import mmap
import os
import pathlib
import shutil
import stat
import struct
from collections.abc import Callable

from gpustack.adapters.mapped.forms import FORMS, FileForm, resize
from gpustack.wire.mapped import activity, limits, two_slot_page

# The start of all three headers: magic, layout version.
_STATED = struct.Struct("<8xI")


def create_limits(
    path: pathlib.Path, value: limits.Limits, *, layout: int = two_slot_page.LAYOUT_VERSION
) -> None:
    """Make a limits file with ``value`` published.

    Raises:
        LayoutError: ``value`` can't be encoded.
        OSError: the file can't be written.
    """
    data = two_slot_page.encode_page(limits.MAGIC, limits.encode_body(value), layout)
    create(path, data, FORMS["limits"])


def publish_limits(path: pathlib.Path, value: limits.Limits) -> None:
    """Change a limits file that containers may have mapped; they see it within 250 ms.

    Its layout stays.

    Raises:
        LayoutError: ``value`` can't be encoded, or ``path`` isn't a limits file of this layout.
        OSError: the file can't be opened or written.
    """
    _publish(path, limits.MAGIC, lambda _: limits.encode_body(value))


def read_limits(path: pathlib.Path) -> limits.Limits:
    """Return the published limits.

    Raises:
        LayoutError: the file is torn, short, foreign or of another version.
        OSError: the file can't be read.
    """
    return limits.decode(_read(path, two_slot_page.PAGE_FILE_BYTES))


def create_activity(
    path: pathlib.Path, value: activity.Activity, *, layout: int = two_slot_page.LAYOUT_VERSION
) -> None:
    """Make an activity page with ``value`` published.

    Raises:
        LayoutError: ``value`` can't be encoded.
        OSError: the file can't be written.
    """
    body = activity.encode_body(value, layout)
    data = two_slot_page.encode_page(activity.MAGIC, body, layout)
    create(path, data, FORMS["activity"])


def publish_activity(path: pathlib.Path, value: activity.Activity) -> int:
    """Change an activity page that containers may have mapped, and return its new generation.

    Its layout stays.

    Raises:
        LayoutError: ``value`` can't be encoded, or ``path`` isn't an activity page of this layout.
        OSError: the file can't be opened or written.
    """
    return _publish(path, activity.MAGIC, lambda layout: activity.encode_body(value, layout))


def read_activity(path: pathlib.Path) -> activity.Activity:
    """Return the published sample.

    Raises:
        LayoutError: the file is torn, short, foreign or of another version.
        OSError: the file can't be read.
    """
    return activity.decode(_read(path, two_slot_page.PAGE_FILE_BYTES))


def read_layout(path: pathlib.Path) -> int:
    """Return the layout that one of the three files states; the rest of it isn't looked at.

    Raises:
        LayoutError: the file ends before.
        OSError: the file can't be read.
    """
    start = _read(path, _STATED.size)
    if len(start) < _STATED.size:
        raise two_slot_page.LayoutError(
            f"file has {len(start)} bytes, its layout is not among them"
        )
    (layout,) = _STATED.unpack_from(start)
    return int(layout)


def open_for_writing(path: pathlib.Path) -> int:
    """Return a descriptor on a container's file; while it is open, no process gets a lease on it.

    Raises:
        BlockingIOError: a process holds a lease on it.
        OSError: it can't be opened, or is no regular file.
    """
    descriptor = open_file(path, os.O_RDWR)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def open_file(path: str | pathlib.Path, flags: int) -> int:
    """Return a descriptor of one of the files, without waiting and without following a link.

    Raises:
        OSError: it can't be opened; a BlockingIOError where a process holds a lease on it.
    """
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)


def _read(path: pathlib.Path, size_bytes: int) -> bytes:
    """Return a file of this size; a longer file gives one byte more."""
    fd = open_file(path, os.O_RDONLY)
    try:
        return os.pread(fd, size_bytes + 1, 0)
    finally:
        os.close(fd)


def create(path: pathlib.Path, data: bytes, form: FileForm) -> None:
    """Make a file of this form, whole or not at all; what lies there is replaced.

    Raises:
        OSError: it can't be written, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.new")
    _remove_folder(temporary)
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, form.mode)  # open's mode would be cut by the umask
        resize(fd, form.size_bytes)
        _write_all(fd, data, 0)
    finally:
        os.close(fd)
    _remove_folder(path)
    temporary.rename(path)


def _remove_folder(path: pathlib.Path) -> None:
    """Remove a folder in a file's place: a runtime makes one where the file to mount is missing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _publish(path: pathlib.Path, magic: bytes, encode: Callable[[int], bytes]) -> int:
    fd = open_file(path, os.O_RDWR)
    try:
        data = os.pread(fd, two_slot_page.PAGE_FILE_BYTES + 1, 0)
        published, layout = two_slot_page.check_page(magic, data)
        # Readers compare generations for equality only. The idle slot counts too: a dead writer
        # may have left a generation there that a reader has seen; it is not used again.
        newest = max(
            two_slot_page.SLOT_HEADER.unpack_from(data, two_slot_page.slot_offset(slot))[0]
            for slot in (0, 1)
        )
        generation: int = (newest + 1) & (2**64 - 1)
        idle = 1 - published
        slot = two_slot_page.encode_slot(encode(layout), generation)
        with _mapped(fd) as memory:
            _put(memory, slot, two_slot_page.slot_offset(idle))
            _put(memory, bytes([idle]), two_slot_page.PUBLISHED_OFFSET)
        return generation
    finally:
        os.close(fd)


def _mapped(fd: int) -> mmap.mmap:
    try:
        return mmap.mmap(fd, two_slot_page.PAGE_FILE_BYTES)
    except ValueError as error:  # cut off since it was read
        raise two_slot_page.LayoutError(str(error)) from error


def _put(memory: mmap.mmap, data: bytes, offset: int) -> None:
    """Let the kernel copy into a mapping of one page.

    Where a store would end the agent with SIGBUS, on a full disk for instance, it says EFAULT.
    """
    source, sink = os.pipe()
    try:
        os.write(sink, data)  # less than a pipe takes
        with memoryview(memory) as whole, whole[offset : offset + len(data)] as window:
            os.readv(source, [window])
    finally:
        os.close(source)
        os.close(sink)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
