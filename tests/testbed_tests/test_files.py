import hashlib
import io
import json
import pathlib
import tarfile

import pytest

from tests.testbed import description
from tests.testbed.artifacts import image_archive
from tests.testbed.host_files import files, layout, pki


def members(stream: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        return {member.name: member for member in archive}


def test_a_tar_stream_holds_files_links_and_folders_with_their_modes() -> None:
    found = members(
        files.tar(
            [
                files.File("/etc/secret", b"word", mode=0o600),
                files.link("/usr/local/bin/tool", "/opt/tool"),
                files.Folder("/var/lib/state", mode=0o777),
            ]
        )
    )

    assert list(found) == ["etc/secret", "usr/local/bin/tool", "var/lib/state"]
    assert (found["etc/secret"].size, found["etc/secret"].mode) == (4, 0o600)
    assert found["usr/local/bin/tool"].linkname == "/opt/tool"
    assert found["var/lib/state"].isdir()
    assert found["var/lib/state"].mode == 0o777


def test_a_template_with_a_word_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError, match="pod_subnet"):
        files.template("cni.conflist", "/etc/cni/net.d/10-testbed.conflist")


def test_an_enabled_unit_is_one_that_the_host_gets(testbed: description.Testbed) -> None:
    keys = pki.make(testbed)
    for host in testbed.hosts:
        entries = layout.common(testbed, host)
        if host == testbed.control_plane:
            entries += layout.control_plane(testbed, host, keys)
        else:
            entries += layout.gpu_node(host, keys)
        paths = {entry.path for entry in entries}
        wanted = {
            entry.target
            for entry in entries
            if isinstance(entry, files.File) and "multi-user.target.wants" in entry.path
        }
        # Debian's own unit, which the root holds
        assert wanted - paths <= {"/lib/systemd/system/containerd.service"}
        assert len(paths) == len(entries), "two files of the same name"


def test_the_policy_scheduler_is_there_but_not_started(testbed: description.Testbed) -> None:
    host, keys = testbed.control_plane, pki.make(testbed)
    paths = {entry.path for entry in layout.control_plane(testbed, host, keys)}

    assert "/etc/systemd/system/kube-scheduler-1.22.service" in paths
    assert "/etc/systemd/system/multi-user.target.wants/kube-scheduler-1.22.service" not in paths


def test_a_host_knows_the_way_to_the_pods_of_the_others_only(testbed: description.Testbed) -> None:
    routes = layout.routes(testbed, testbed.host("gpu1"))

    assert "10.244.2.0/24 via 10.89.7.12" in routes
    assert "10.244.1.0/24" not in routes


def test_hosts_are_different_machines_and_the_same_ones_when_made_again(
    testbed: description.Testbed,
) -> None:
    def machine_id(host: str) -> bytes:
        made = layout.common(testbed, testbed.host(host))
        found = [each for each in made if each.path == "/etc/machine-id"]
        assert isinstance(found[0], files.File)
        return found[0].data

    assert machine_id("gpu1") == machine_id("gpu1")
    assert machine_id("gpu1") != machine_id("gpu2")
    assert len(machine_id("gpu1")) == 33


def test_an_image_archive_names_its_layer_by_its_hash(tmp_path: pathlib.Path) -> None:
    image = image_archive.Image(
        tag="example.test/thing:1", entries=[files.File("/run", b"x", mode=0o755)],
        command=("/run",), environment=("A=1",),
    )  # fmt: skip

    image_archive.write(image, tmp_path / "thing.tar")

    with tarfile.open(tmp_path / "thing.tar") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    (manifest,) = json.loads(content["manifest.json"])
    configuration = content[manifest["Config"]]
    assert manifest["RepoTags"] == ["example.test/thing:1"]
    assert manifest["Config"] == f"{hashlib.sha256(configuration).hexdigest()}.json"
    assert json.loads(configuration)["config"] == {"Cmd": ["/run"], "Env": ["A=1"]}
    layer = content[manifest["Layers"][0]]
    assert json.loads(configuration)["rootfs"]["diff_ids"] == [
        f"sha256:{hashlib.sha256(layer).hexdigest()}"
    ]
    assert members(layer)["run"].mode == 0o755


def test_the_same_image_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    image = image_archive.Image(
        tag="example.test/thing:1", entries=[files.File("/a", b"x")], command=("/a",)
    )
    image_archive.write(image, tmp_path / "first.tar")
    image_archive.write(image, tmp_path / "second.tar")

    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()
