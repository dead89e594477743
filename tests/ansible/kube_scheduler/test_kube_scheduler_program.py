"""A unit's or a manifest's words on its scheduler are read as systemd reads them."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ansible import plugins
from tests.ansible.kube_scheduler.trial.laid_processes import HASH

PATH = "/etc/kubernetes/scheduler-config.yaml"
PROGRAM = "/usr/local/bin/kube-scheduler"


@pytest.fixture(scope="module")
def filters() -> types.ModuleType:
    """Load the role's plugin as Ansible does: by its path."""
    return plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler_program.py")


def shown(command: str, *more: str) -> str:
    """Return the output of `systemctl show` for a unit with this command."""
    start = (
        f"ExecStart={{ path={command.split(maxsplit=1)[0]} ; argv[]={command} ; ignore_errors=no ; "
        "start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }"
    )
    return "\n".join(["LoadState=loaded", start, *more])


@pytest.mark.parametrize(
    ("command", "more", "files"),
    [
        (f"{PROGRAM} --config={PATH} --v=2", [], []),
        (f"{PROGRAM} --config {PATH}", [], []),
        # the last of two counts, as for the scheduler itself
        (f"{PROGRAM} --config=/old.yaml --config={PATH}", [], []),
        (f"{PROGRAM} --config=${{CONFIG}}", [f"Environment=A=1 CONFIG={PATH}"], []),
        (f"{PROGRAM} $A $OPTIONS", [], [f"# site's\nOPTIONS='--v=2 \\\n --config={PATH}'\n"]),
        # a file goes before Environment=, the later file before the earlier
        (f"{PROGRAM} $O", ["Environment=O=--config=/x"], ["O=--config=/y", f"O=--config={PATH}"]),
        (f'/bin/sh -c "exec {PROGRAM} --config={PATH}"', [], []),
    ],
)
def test_the_file_that_a_unit_reads_is_found(
    filters: types.ModuleType, command: str, more: list[str], files: list[str]
) -> None:
    assert filters.flag_of_unit(shown(command, *more), files, "", "--config") == PATH


def test_a_wrappers_process_tells_what_its_unit_does_not(filters: types.ModuleType) -> None:
    running = f"{PROGRAM}\0--config={PATH}\0--v=2\0"
    unit = shown("/opt/site/run-scheduler")
    assert filters.flag_of_unit(unit, [], running, "--config") == PATH
    assert filters.flag_of_unit(unit, [], "", "--config") == ""
    # a variable that could not be read
    unset = shown(f"{PROGRAM} --config=${{CONFIG}}")
    assert filters.flag_of_unit(unset, [], running, "--config") == PATH


def test_the_next_start_counts_not_the_last(filters: types.ModuleType) -> None:
    running = f"{PROGRAM}\0--config={PATH}\0"
    unit = shown(f"{PROGRAM} --leader-elect=true")
    assert filters.flag_of_unit(unit, [], running, "--config") == ""


def test_environment_files_are_named_without_their_flags(filters: types.ModuleType) -> None:
    unit = shown(
        PROGRAM,
        "EnvironmentFiles=/etc/default/scheduler (ignore_errors=yes)",
        "EnvironmentFiles=/etc/site (ignore_errors=no)",
    )
    assert filters.environment_files(unit) == ["/etc/default/scheduler", "/etc/site"]


@given(text=st.text(max_size=200), files=st.lists(st.text(max_size=200), max_size=3))
def test_any_text_can_be_read(filters: types.ModuleType, text: str, files: list[str]) -> None:
    found = filters.flag_of_unit(shown(f"{PROGRAM} {text or '-'}"), files, text, "--config")
    assert isinstance(found, str)
    assert filters.minor_version(text) >= 0


@pytest.mark.parametrize(
    ("said", "version", "form"),
    [
        ("Kubernetes v1.22.17", "", "policy"),
        ("Kubernetes v1.23.0", "kubescheduler.config.k8s.io/v1beta3", "configuration"),
        (
            "registry.k8s.io/kube-scheduler:v1.24.17",
            "kubescheduler.config.k8s.io/v1beta3",
            "configuration",
        ),
        (
            "rancher/hardened-kubernetes:v1.25.3-k3s1",
            "kubescheduler.config.k8s.io/v1",
            "configuration",
        ),
        ("Kubernetes v1.37.0", "kubescheduler.config.k8s.io/v1", "configuration"),
        ("kube-scheduler@sha256:0123", "", ""),
    ],
)
def test_each_version_gets_what_it_reads(
    filters: types.ModuleType, said: str, version: str, form: str
) -> None:
    minor = filters.minor_version(said)
    assert filters.api_version(minor) == version
    assert filters.form(minor) == form


def test_the_image_is_that_of_the_scheduler(filters: types.ModuleType) -> None:
    manifest = {
        "spec": {
            "containers": [
                {"image": "sidecar:v1.20.0", "command": ["sh"]},
                {"image": "kube-scheduler:v1.30.1", "command": ["/usr/bin/kube-scheduler"]},
            ]
        }
    }
    assert filters.image(manifest) == "kube-scheduler:v1.30.1"
    assert filters.image({}) == ""


@pytest.mark.parametrize("words", [[f"--config={PATH}"], ["--config", PATH]])
@pytest.mark.parametrize("key", ["command", "args"])
def test_the_file_that_a_manifest_names_is_found(
    filters: types.ModuleType, key: str, words: list[str]
) -> None:
    container = {"command": ["kube-scheduler"]}
    container[key] = [*container.get(key, []), *words]
    manifest = {"spec": {"containers": [{"command": ["sh", "--config=/x"]}, container]}}
    assert filters.flag_of_manifest(manifest, "--config") == PATH
    assert filters.flag_of_manifest({}, "--config") == ""


@pytest.mark.parametrize(
    ("command", "running", "found"),
    [
        (f"{PROGRAM} --config={PATH} --v=2", "", [PROGRAM, "--v=2"]),
        (f"{PROGRAM} --v=2 --config {PATH}", "", [PROGRAM, "--v=2"]),
        ("/opt/site/run", f"{PROGRAM}\0--v=2\0--config\0{PATH}\0", [PROGRAM, "--v=2"]),
        (f"{PROGRAM} $MORE", f"{PROGRAM}\0--v=3\0", [PROGRAM, "--v=3"]),
        # a variable that nothing says, and a program of another name
        (f"{PROGRAM} $MORE", "", []),
        ("/opt/site/run", "/opt/hyperkube\0scheduler\0", []),
    ],
)
def test_a_units_scheduler_is_tried_with_its_flags_and_another_file(
    filters: types.ModuleType, command: str, running: str, found: list[str]
) -> None:
    assert filters.trial_of_unit(shown(command), [], running) == found


USERS = "01234567-89ab-cdef-0123-456789abcdef"
POD = {
    "spec": {
        "containers": [
            {"command": ["etcd"]},
            {"command": ["kube-scheduler", f"--config={PATH}"], "args": ["--v=2"]},
        ]
    }
}
RUNS = {
    "pid": "9",
    "command": ["kube-scheduler", f"--config={PATH}", "--v=2"],
    "root": True,
    "pod": HASH,
}


def test_a_static_pods_scheduler_is_the_process_with_its_command(
    filters: types.ModuleType,
) -> None:
    others = [
        {**RUNS, "pid": "7", "command": ["kube-scheduler", "--config=/theirs.yaml", "--v=2"]},
        {**RUNS, "pid": "8", "command": [PROGRAM, f"--config={PATH}", "--v=2"]},
        {**RUNS, "pid": "6", "root": False},
        {**RUNS, "pid": "5", "pod": ""},
    ]
    assert filters.trial_of_pod(POD, [*others, RUNS]) == ["/proc/9/exe", "--v=2"]
    assert filters.trial_of_pod(POD, others) == []
    assert filters.trial_of_pod({}, [{**RUNS, "command": []}]) == []


def test_a_static_pod_whose_file_names_its_uid_is_known_by_that(filters: types.ModuleType) -> None:
    named = {**POD, "metadata": {"uid": USERS}}
    assert filters.trial_of_pod(named, [{**RUNS, "pod": USERS}])[0] == "/proc/9/exe"
    assert filters.trial_of_pod(named, [RUNS]) == []


def test_another_scheduler_counts_only_where_no_static_pods_was_seen(
    filters: types.ModuleType,
) -> None:
    seen = {"processes": [{"pid": "9"}], "others": ["4"]}
    assert not filters.is_after({"processes": [], "others": ["5"]}, seen)
    assert not filters.is_after({"processes": [{"pid": "9"}], "others": ["5"]}, seen)
    assert filters.is_after({"processes": [{"pid": "7"}], "others": []}, seen)
    unseen = {"processes": [], "others": ["4"]}
    assert not filters.is_after(unseen, unseen)
    assert filters.is_after({"processes": [], "others": ["4", "5"]}, unseen)
    assert filters.is_after({"processes": [{"pid": "9"}], "others": []}, unseen)
