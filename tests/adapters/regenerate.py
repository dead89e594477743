"""Generate the gRPC messages from our .proto files, in place or into another folder.

``make proto`` runs this module; a test runs it into a temporary folder and compares. Stubs and
servicers are not generated: the adapters name the methods themselves, with types.
"""

import importlib.resources
import pathlib

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).parents[2]
PROTOS = (
    "gpustack/adapters/control/control.proto",
    "gpustack/adapters/cri/cri.proto",
    "gpustack/adapters/deviceplugin/deviceplugin.proto",
    "gpustack/adapters/display/display.proto",
    "gpustack/adapters/podresources/podresources.proto",
    "gpustack/adapters/vcuda/vcuda.proto",
)


def generate(target: pathlib.Path) -> list[pathlib.Path]:
    """Write ``*_pb2.py`` and ``*_pb2.pyi`` below ``target``; return their paths.

    Raises:
        RuntimeError: protoc refused a file; it said why on stderr.
    """
    with importlib.resources.as_file(importlib.resources.files("grpc_tools") / "_proto") as own:
        for proto in PROTOS:
            paths = [f"-I{ROOT}", f"-I{own}", f"--python_out={target}", f"--pyi_out={target}"]
            status = protoc.main(["protoc", *paths, str(ROOT / proto)])
            if status:
                raise RuntimeError(f"protoc failed on {proto} with status {status}")
    stems = [target / proto.removesuffix(".proto") for proto in PROTOS]
    return [stem.with_name(stem.name + end) for stem in stems for end in ("_pb2.py", "_pb2.pyi")]


if __name__ == "__main__":
    generate(ROOT)
