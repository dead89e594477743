"""The root file system that every host starts from.

Debian with systemd and everything that a control-plane host or a GPU host needs, built once by
mmdebstrap, kept in the cache under a hash of its recipe, and imported into podman as an image. It
is Debian 12, or the release that GPUSTACK_TESTBED_SUITE names.
"""

import collections.abc
import hashlib
import os
import pathlib
import shutil
import tarfile

from tests.testbed import paths, progress

# Debian's releases, and the Python of each
SUITES = {"bookworm": "3.11", "trixie": "3.13"}
PACKAGES = (
    # a plain host
    "systemd-sysv", "dbus", "python3", "python3-apt", "python3-debian", "sudo", "kmod", "procps",
    "iproute2", "iputils-ping", "ca-certificates", "mount", "file", "less",
    # a node
    "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "ethtool",
    # the programs of the images
    "busybox-static",
    # a control plane
    "etcd-server", "etcd-client",
)  # fmt: skip
# documentation is a third of the files and is not read on a test host
DPKG_OPTIONS = ("path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*",
                "path-exclude=/usr/share/locale/*")  # fmt: skip
CUSTOMIZE = pathlib.Path(__file__).with_name("customize.sh")
REPOSITORY = "localhost/gpustack-testbed-root"


def suite() -> str:
    """Return the release of the hosts.

    Raises:
        TestbedError: the environment names another one.
    """
    chosen = os.environ.get("GPUSTACK_TESTBED_SUITE", "bookworm")
    if chosen not in SUITES:
        raise progress.TestbedError(
            f"GPUSTACK_TESTBED_SUITE is {chosen!r}; set {' or '.join(SUITES)}"
        )
    return chosen


def key(of: str | None = None) -> str:
    """Return the hash of the recipe, under which a release's root is kept; the hosts' if None."""
    recipe = "\n".join((of or suite(), *PACKAGES, *DPKG_OPTIONS, CUSTOMIZE.read_text()))
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def image(of: str | None = None) -> str:
    """Return the name of the podman image of a release's recipe."""
    return f"{REPOSITORY}:{key(of)}"


def archive(of: str | None = None) -> pathlib.Path:
    """Return the tar file of a release's root; ``build`` makes the hosts'."""
    return paths.cache("root") / f"{key(of)}.tar"


def build() -> str:
    """Make the root and its image when they are missing; return the image's name.

    The environment's GPUSTACK_TESTBED_MIRROR, when set, is the Debian mirror to take it from.

    Raises:
        TestbedError: mmdebstrap or podman failed.
    """
    with progress.exclusive("root"):
        _ensure_archive()
        if not _image_exists():
            with progress.step("importing the hosts' root into podman"):
                progress.call(
                    ["podman", "import", "--quiet", archive(), image()], log="testbed-import"
                )
    return image()


def unpack(folder: pathlib.Path) -> None:
    """Make a folder with a copy of the root, which is made when it is missing.

    Raises:
        TestbedError: the root could not be made, or there is no room for the copy.
    """
    with progress.exclusive("root"):
        _ensure_archive()
        folder.mkdir()
        progress.call(["tar", "-xf", archive(), "-C", folder], log="testbed-unpack")


def program(name: str) -> pathlib.Path:
    """Return a program of the root that runs on this machine as well, made when it is missing.

    The tests need only the program of a package that would start a service where it is installed.

    Raises:
        TestbedError: the root could not be made, or lacks the program.
    """
    found = paths.cache("root", key()) / name
    with progress.exclusive("root"):
        if not found.exists():
            _ensure_archive()
            partial = found.with_suffix(".partial")
            partial.write_bytes(read({f"usr/bin/{name}"})[f"usr/bin/{name}"])
            partial.chmod(0o755)
            partial.rename(found)
    return found


def read(wanted: collections.abc.Set[str]) -> dict[str, bytes]:
    """Return files of the root, which is built, by their paths without the first slash.

    Raises:
        TestbedError: it lacks one of them.
    """
    content = {}
    with tarfile.open(archive()) as opened:
        for member in opened:
            name = member.name.removeprefix("./")
            if name in wanted:
                stream = opened.extractfile(member)
                assert stream is not None, f"{name} is no file"
                content[name] = stream.read()
    absent = wanted - content.keys()
    if absent:
        raise progress.TestbedError(f"the hosts' root lacks {', '.join(sorted(absent))}")
    return content


def _ensure_archive() -> None:
    if not archive().exists():
        _bootstrap()
        _forget_old()


def _image_exists() -> bool:
    return image() in _images()


def _images() -> list[str]:
    names = progress.output(["podman", "images", "--format={{.Repository}}:{{.Tag}}", REPOSITORY])
    return names.split()


def _forget_old() -> None:
    """Remove the roots of recipes that are no more, 400 MB each, unless a host runs on one."""
    for old in archive().parent.glob("*.tar"):
        if old not in map(archive, SUITES):
            old.unlink()
            shutil.rmtree(old.with_suffix(""), ignore_errors=True)
    used = progress.output(["podman", "ps", "--all", "--format={{.Image}}"]).split()
    for name in _images():
        if name not in (*used, *map(image, SUITES)):
            progress.output(["podman", "image", "rm", name])


def _bootstrap() -> None:
    partial = archive().with_suffix(".partial.tar")
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    mirror = os.environ.get("GPUSTACK_TESTBED_MIRROR")
    with progress.step(f"making the hosts' root ({suite()}, {len(PACKAGES)} packages; 20-80 s)"):
        progress.call(
            ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *options,
             "--aptopt=Acquire::Languages \"none\"", f"--customize-hook={CUSTOMIZE} \"$1\"",
             suite(), partial, *([mirror] if mirror else [])],
            log="testbed-root",
        )  # fmt: skip
    partial.rename(archive())
