"""The agent finds the kubelet's container runtime where its configuration doesn't name it."""

import pathlib
import socket

import pytest

from gpustack.adapters.cri.endpoint import RuntimeEndpointError, find
from tests.fakes.cri import FakeCri


def _dead(path: pathlib.Path) -> pathlib.Path:
    """Leave a socket on which nothing listens."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path


def test_the_kubelets_configuration_names_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n"
    )
    assert find(tmp_path, ()) == "unix:///var/run/crio/crio.sock"


@pytest.mark.parametrize("value", ["unix:///run/crio/crio.sock", "/run/crio/crio.sock"])
def test_kubeadms_flags_name_it(tmp_path: pathlib.Path, value: str) -> None:
    (tmp_path / "kubeadm-flags.env").write_text(
        f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={value} --node-ip=10.0.0.1"\n'
    )
    assert find(tmp_path, ()) == "unix:///run/crio/crio.sock"


@pytest.mark.parametrize(
    "text", ["", "[1]", "containerRuntimeEndpoint: 7", "{", "\ttab: x", "at: !!int x"]
)
def test_a_configuration_that_does_not_name_it_is_passed_over(
    tmp_path: pathlib.Path, text: str
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    only = _dead(tmp_path / "crio.sock")
    assert find(tmp_path, (tmp_path / "missing.sock", only)) == f"unix://{only}"


def test_of_two_sockets_the_one_that_answers_is_taken(tmp_path: pathlib.Path) -> None:
    dead = _dead(tmp_path / "containerd.sock")
    with FakeCri(tmp_path, name="cri-o") as crio:
        own = pathlib.Path(crio.endpoint.removeprefix("unix://"))
        assert find(tmp_path, (dead, own)) == crio.endpoint


def test_two_runtimes_that_answer_are_a_question(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with FakeCri(tmp_path / "one") as one, FakeCri(tmp_path / "two", name="cri-o") as two:
        paths = [pathlib.Path(each.endpoint.removeprefix("unix://")) for each in (one, two)]
        with pytest.raises(RuntimeEndpointError, match=r"several .*; set cri_endpoint"):
            find(tmp_path, paths)


def test_no_runtime_is_an_error_that_names_the_places(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeEndpointError, match=r"/file; set cri_endpoint"):
        find(tmp_path, (tmp_path / "file",))
