"""From a CUDA toolkit's cuda.h to the names that a driver of its generation exports.

Prints lines like those of `src/cuda/names-535.txt`: SYMBOL NAME SINCE STREAMS. The header declares
every symbol, in three readings: as programs see it, with the old ones, and with per-thread default
streams; `cudaTypedefs.h` says since which CUDA version each variant is there. Of toolkit 12.2 this
gives, for all 552 symbols, what driver 535 itself answers. Not in the header, so missing here: the
GL, EGL, VDPAU and profiler functions, and those for debuggers.

`python3 headers.py fetch 11.8 FOLDER` gets the headers, through pip; `names 11.8 FOLDER` prints.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path

# Of each generation, the newest release when this was written; any other will do.
LOCKS = Path(__file__).resolve().parents[1] / "hook" / "locks"
GENERATIONS = tuple(
    sorted(path.stem.removeprefix("cudart-") for path in LOCKS.glob("cudart-*.txt"))
)
HEADERS = ("cuda.h", "cudaTypedefs.h")
DECLARATION = re.compile(r"\bCUresult\s+(?:\w+\s+)*?(cu[A-Z]\w*)\s*\(")
VARIANT = re.compile(r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\s*\)")
# Inline functions of the header, not symbols of the library.
INLINE = {"cuGetProcAddress_ptsz", "cuGetProcAddress_v2_ptsz"}


def fetch(generation: str, folder: Path) -> None:
    """Puts a generation's two headers into the folder, unless they are there."""
    if all((folder / name).exists() for name in HEADERS):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
        lock = LOCKS / f"cudart-{generation}.txt"
        subprocess.run([*pip, "-d", wheels, "-r", str(lock)], check=True)
        (wheel,) = Path(wheels).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if Path(name).name in HEADERS:
                    (folder / Path(name).name).write_bytes(archive.read(name))


def declared(folder: Path, *defines: str) -> set[str]:
    """The functions that cuda.h declares under these definitions."""
    command = ["gcc", "-E", "-P", f"-I{folder}", *defines, str(folder / "cuda.h")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(DECLARATION.findall(text)) - INLINE


def toolkit_version(folder: Path) -> int:
    """CUDA_VERSION of the header, such as 11080."""
    found = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", (folder / "cuda.h").read_text())
    assert found, f"{folder}: no CUDA_VERSION"
    return int(found[1])


def number(symbol: str) -> int:
    """Of a symbol without its twin's suffix: 2 for cuMemAlloc_v2, 1 for cuMemAlloc."""
    found = re.search(r"_v(\d+)$", symbol)
    return int(found[1]) if found else 1


def names(folder: Path) -> list[str]:
    """The lines of one generation's list, in order."""
    twins = declared(folder, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")
    symbols = declared(folder) | declared(folder, "-D__CUDA_API_VERSION_INTERNAL") | twins
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name, since, twin in VARIANT.findall((folder / "cudaTypedefs.h").read_text()):
        versions[name, twin].add(int(since))
    twinned = {name for name, twin in versions if twin}
    lines = []
    for (name, twin), sinces in versions.items():
        pattern = re.compile(re.escape(name) + r"(_v\d+)?" + twin)
        own = sorted(
            (symbol for symbol in symbols if pattern.fullmatch(symbol)),
            key=lambda symbol, twin=twin: number(symbol.removesuffix(twin)),  # type: ignore[misc]
        )
        streams = "thread" if twin else "legacy" if name in twinned else "any"
        assert len(own) == len(sinces), f"{name}: {own} are not {sorted(sinces)}"
        lines += [
            f"{symbol} {name} {since} {streams}"
            for symbol, since in zip(own, sorted(sinces), strict=True)
        ]
    # A symbol without a typedef: of 12.9 four that are as new as the toolkit, nearly.
    known = {line.split()[0] for line in lines}
    newest = toolkit_version(folder)
    lines += [f"{symbol} {symbol} {newest} any" for symbol in symbols - known]
    return sorted(lines)


def main() -> None:
    """Gets headers or prints names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("fetch", "names"))
    parser.add_argument("generation", choices=GENERATIONS)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    if args.action == "fetch":
        fetch(args.generation, args.folder)
        return
    version = toolkit_version(args.folder)
    print(f"# Derived from the cuda.h of CUDA {version}, not from a driver.")
    print("\n".join(names(args.folder)))


if __name__ == "__main__":
    main()
