import pathlib
import re
import sys

import pytest

from tests.testbed import __main__ as command_line
from tests.testbed import description, hosts, progress
from tests.testbed.artifacts import golang, kubernetes


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("GPUSTACK_CACHE", str(tmp_path))
    return tmp_path


def test_a_failed_program_names_its_log_and_shows_its_end(cache: pathlib.Path) -> None:
    code = "import sys; print('the cause'); sys.exit(3)"

    with pytest.raises(progress.TestbedError) as raised:
        progress.call([sys.executable, "-c", code], log="thing")

    log = cache / "logs" / "thing.log"
    assert f"failed (status 3); log: {log}\nthe cause" in str(raised.value)
    assert log.read_text() == "the cause\n"


def test_a_short_program_that_fails_shows_what_it_said() -> None:
    with pytest.raises(progress.TestbedError, match=r"status 1.*: no luck"):
        progress.output([sys.executable, "-c", "raise SystemExit('no luck')"])


def test_a_program_that_is_not_there_is_named_with_the_cure() -> None:
    with pytest.raises(progress.TestbedError, match=r"no-such-program is not installed.*prepare"):
        progress.output(["no-such-program"])


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8\n", (1, 26)), ("go1.24rc1", (1, 24)), ("", None), ("devel +abc", None)],
)
def test_the_version_of_go_is_read(text: str, version: tuple[int, int] | None) -> None:
    assert golang.parse_version(text) == version


@pytest.mark.parametrize("release", [kubernetes.LATEST, kubernetes.OLDER, kubernetes.POLICY])
def test_a_release_is_the_one_that_its_module_requires(release: kubernetes.Release) -> None:
    module = (release.module / "go.mod").read_text()

    required = re.findall(r"k8s\.io/kubernetes (v[\d.]+)( //.*)?$", module, re.MULTILINE)
    assert [version for version, _ in required] == [release.version]
    assert f"gitVersion={release.version} " in release.linker_flags


def test_a_cluster_has_the_latest_release_or_the_one_asked_for() -> None:
    assert kubernetes.chosen(None) == kubernetes.chosen("") == kubernetes.LATEST
    assert kubernetes.chosen("1.34") == kubernetes.OLDER
    with pytest.raises(progress.TestbedError, match=r"TESTBED_KUBERNETES=1.22: .*1.37 or 1.34"):
        kubernetes.chosen("1.22")


def test_a_build_is_missing_until_all_its_programs_are_there(cache: pathlib.Path) -> None:
    release = kubernetes.CURRENT
    for program in release.programs[1:]:
        (release.bin / program).touch()

    assert release.missing == release.programs[:1]


def test_only_gpu_hosts_get_a_volume_and_all_survive_a_reboot(testbed: description.Testbed) -> None:
    commands = {
        host.name: hosts.create_command(testbed, host, "root:1", {"/opt": pathlib.Path("/srv")})
        for host in testbed.hosts
    }

    volume = "--volume=paper-gpu1-containerd:/var/lib/containerd"
    assert volume in commands["gpu1"]
    assert not any("containerd" in str(word) for word in commands["cp1"])
    for name, command in commands.items():
        assert "--restart=always" in command
        assert f"--pidfile={testbed.state / name}.pid" in command
        assert f"--label={description.LABEL}=paper" in command
        assert "--volume=/srv:/opt:ro" in command
        assert command[-4:-1] == ["root:1", "/bin/sh", "-c"]
        assert str(command[-1]).endswith(" exec /sbin/init")


def test_the_command_line_hands_words_on_as_they_are() -> None:
    chosen = command_line.parser().parse_args(["exec", "--name", "demo", "gpu1", "--", "ls", "-l"])

    assert (chosen.name, chosen.host) == ("demo", "gpu1")
    assert command_line.after_dashes(chosen.words) == ["ls", "-l"]


def test_an_unknown_testbed_is_one_line_and_not_a_traceback(
    state_root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["status", "--name", "missing"]) == 1

    assert capsys.readouterr().err.startswith("testbed: no testbed is called missing")
