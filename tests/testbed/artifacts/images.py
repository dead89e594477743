"""The images of the test cluster: pause, busybox, and a CUDA application of ours.

Their programs come from the hosts' root (Debian's files) and from ``tests/images/*.c``. Pods name
them with ``imagePullPolicy: Never``: containerd has them imported before the kubelet starts.
"""

import collections.abc
import hashlib
import pathlib
import sys
import tempfile

from tests.testbed import paths, progress, root
from tests.testbed.artifacts import image_archive
from tests.testbed.host_files import files

PAUSE = "gpustack.test/pause:1"
BUSYBOX = "gpustack.test/busybox:1"
CUDA = "gpustack.test/cuda:1"

SOURCES = paths.REPOSITORY / "tests" / "images"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# the parts of glibc for a dynamically linked program, and those for the simulated driver's
LIBRARY_NAMES = ("ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6",
                 "libpthread.so.0", "librt.so.1", "libgcc_s.so.1")  # fmt: skip
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# as in NVIDIA's own CUDA images: they look for a driver volume there
CUDA_ENVIRONMENT = (
    "PATH=/usr/local/nvidia/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
)
# applets of the CUDA image that must not hide a dynamically linked program of the same name
DYNAMIC = ("sh", "cat", "sleep", "env")


def key() -> str:
    """Return the hash of the images' inputs."""
    digest = hashlib.sha256(root.key().encode())
    here = pathlib.Path(__file__)
    for source in (*sorted(SOURCES.glob("*.[ch]")), here, here.with_name("image_archive.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> pathlib.Path:
    """Return the folder of the image archives."""
    return paths.cache("images", key())


def build() -> pathlib.Path:
    """Make the archives that are missing and return their folder.

    Raises:
        TestbedError: A program did not compile.
    """
    target = folder()
    with progress.exclusive("images"):
        if not (target / "cuda.tar").exists():
            root.build()
            with progress.step("making the images pause, busybox and cuda"):
                content = _from_root()
                image_archive.write(_pause(), target / "pause.tar")
                image_archive.write(_busybox(content), target / "busybox.tar")
                image_archive.write(_cuda(content), target / "cuda.tar")
    return target


def _from_root() -> dict[str, bytes]:
    wanted = {f"usr/bin/{name}" for name in ("busybox", "dash", "cat", "sleep", "env")}
    return root.read(wanted | {f"{LIBRARIES}/{name}" for name in LIBRARY_NAMES})


def _pause() -> image_archive.Image:
    program = compile_program(("gcc",), "pause.c", "-static")
    return image_archive.Image(
        tag=PAUSE, entries=[files.File("/pause", program, mode=0o755)], command=("/pause",)
    )


def _busybox(content: collections.abc.Mapping[str, bytes]) -> image_archive.Image:
    entries = [*_folders(), *_busybox_programs(content["usr/bin/busybox"])]
    return image_archive.Image(tag=BUSYBOX, entries=entries, command=("sh",), environment=(PATH,))


def _cuda(content: collections.abc.Mapping[str, bytes]) -> image_archive.Image:
    # glibc 2.17, as the hook: then it runs on the root's glibc on any machine
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.17")
    workload = compile_program(zig, "cuda_workload.c", "-ldl")
    dynamic = [files.File(f"/{name}", data, mode=0o755)
               for name, data in content.items() if name != "usr/bin/busybox"]  # fmt: skip
    entries = [
        *_folders(),
        *_busybox_programs(content["usr/bin/busybox"], without=DYNAMIC),
        *dynamic,
        files.link("/lib", "usr/lib"),
        files.link("/lib64", "usr/lib/x86_64-linux-gnu"),
        files.link("/usr/bin/sh", "dash"),
        files.File("/usr/bin/cuda-workload", workload, mode=0o755),
        files.File("/usr/bin/take-lease", compile_program(zig, "take_lease.c"), mode=0o755),
    ]
    return image_archive.Image(
        tag=CUDA, entries=entries, command=("cuda-workload",), environment=CUDA_ENVIRONMENT
    )


def _folders() -> list[files.Entry]:
    return [
        files.Folder("/tmp", mode=0o1777),
        files.Folder("/root", mode=0o700),
        files.link("/bin", "usr/bin"),
        files.File("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
        files.File("/etc/group", b"root:x:0:\n"),
    ]


def _busybox_programs(program: bytes, without: tuple[str, ...] = ()) -> list[files.Entry]:
    with tempfile.TemporaryDirectory() as scratch:
        busybox = pathlib.Path(scratch) / "busybox"
        busybox.write_bytes(program)
        busybox.chmod(0o755)
        applets = progress.output([busybox, "--list"]).split()
    return [
        files.File("/usr/bin/busybox", program, mode=0o755),
        *(
            files.link(f"/usr/bin/{applet}", "busybox")
            for applet in applets
            if applet not in (*without, "busybox")
        ),
    ]


def compile_program(compiler: tuple[str, ...], source: str, *flags: str) -> bytes:
    """Compile one of our C programs and return it."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "program"
        progress.call(
            [*compiler, "-std=gnu11", "-O2", "-s", "-Wall", "-Wextra", "-Werror",
             SOURCES / source, "-o", program, *flags],
            log=f"testbed-image-{source.removesuffix('.c')}",
        )  # fmt: skip
        return program.read_bytes()
