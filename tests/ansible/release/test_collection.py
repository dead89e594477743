"""The collection has all of the product, runs outside a checkout, and depends on sources alone."""

import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import types

import pytest
import yaml

from tests.ansible import layout

pytestmark = pytest.mark.long

SCRIPTS = layout.ROOT / "playbooks" / "scripts"
PLAYBOOKS = sorted(path.stem for path in (layout.ROOT / "playbooks").glob("*.yml"))
NOBODY = 65534


@pytest.fixture(scope="module")
def collection() -> types.ModuleType:
    """Load the script that builds it."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        return importlib.import_module("collection")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def installed(
    collection: types.ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """Return a folder outside the checkout, where every user may read the installed collection."""
    folder = tmp_path_factory.mktemp("away")
    for parent in (folder, *folder.parents[:3]):  # `make test` makes one of them for itself alone
        parent.chmod(parent.stat().st_mode | 0o055)
    archive = collection.build(folder)
    done = command(folder, "ansible-galaxy", "collection", "install", "--offline", str(archive),
                   f"--collections-path={folder}")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def command(
    folder: pathlib.Path, program: str, *arguments: str, user: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs there, where no ansible.cfg of ours lies."""
    programs = pathlib.Path(sys.executable).parent
    # the environment may lie in root's home: that user may read all, and change nothing
    reading = "+dac_read_search"
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
              f"--inh-caps={reading}", f"--ambient-caps={reading}"]  # fmt: skip
    home = folder / f"home-{user or 0}"
    home.mkdir(exist_ok=True)
    if user is not None:
        os.chown(home, user, user)
    return subprocess.run(
        [*(become if user is not None else ()), str(programs / program), *arguments],
        cwd=home,
        env={
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_INJECT_FACT_VARS": "False",  # as docs/operations.md asks of its users
            "ANSIBLE_COLLECTIONS_PATH": str(folder),
            **more,
        },
        text=True,
        capture_output=True,
        check=False,
    )


def tree(folder: pathlib.Path) -> pathlib.Path:
    return folder / "ansible_collections" / "gpustack" / "gpustack"


def test_another_time_umask_and_checkout_give_the_same_bytes(
    collection: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = collection.build(tmp_path / "first").read_bytes()
    checkout = tmp_path / "checkout"
    before = os.umask(0o077)
    try:
        for name in ("gpustack/__init__.py", "playbooks", "roles", "inventories", "monitoring",
                     *collection.FILES):  # fmt: skip
            source = layout.ROOT / name
            # in another order, too, which is the file system's for ansible-galaxy
            for path in sorted([source, *source.rglob("*")], reverse=True):
                if path.is_file():
                    copy = checkout / path.relative_to(layout.ROOT)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(path.read_bytes())
                    os.utime(copy, (1, 1))
        (checkout / "roles" / "preflight" / "__pycache__").mkdir(exist_ok=True)
        (checkout / "roles" / "preflight" / "__pycache__" / "left.pyc").write_bytes(b"left")
        monkeypatch.setattr(collection.bundle, "ROOT", checkout)
        second = collection.build(tmp_path / "second").read_bytes()
    finally:
        os.umask(before)
    assert first == second


def test_it_holds_the_product_and_nothing_else(installed: pathlib.Path) -> None:
    found = tree(installed)
    assert sorted(path.name for path in found.iterdir()) == [
        "CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "inventories",
        "meta", "monitoring", "playbooks", "plugins", "roles",
    ]  # fmt: skip
    rules = "monitoring/rules/alerts.yml"
    assert (found / rules).read_bytes() == (layout.ROOT / rules).read_bytes()
    assert sorted(path.stem for path in (found / "playbooks").glob("*.yml")) == PLAYBOOKS
    assert {path.name for path in (found / "playbooks").iterdir() if path.is_dir()} == {"tasks"}
    assert sorted(path.name for path in (found / "roles").iterdir()) == list(layout.ROLES)
    # not the folder itself: plays leave bytecode in it
    files = json.loads((found / "FILES.json").read_text("utf-8"))["files"]
    parts = {part for each in files for part in pathlib.PurePath(each["name"]).parts}
    assert not parts & {"__pycache__", "scripts", "library", "filter_plugins", "tests"}
    ours = {path.name for path in (layout.ROOT / "roles").rglob("*.py")}
    assert {path.name for path in found.rglob("*.py")} == ours | {"drift.py"}


def test_drift_is_told_by_the_callback_of_the_collection(installed: pathlib.Path) -> None:
    hosts = installed / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"kube_control_plane": {"hosts": {"cp1": None}}}))
    run = ("ansible-playbook", "-i", str(hosts), "--check", "gpustack.gpustack.drift")
    refused = " ".join(command(installed, *run).stdout.split())
    (name,) = set(re.findall(r"ANSIBLE_CALLBACKS_ENABLED=([\w.]+\w)", refused))
    assert "Group gpu_nodes" in command(installed, *run, ANSIBLE_CALLBACKS_ENABLED=name).stdout


def test_its_version_is_the_products(collection: types.ModuleType, installed: pathlib.Path) -> None:
    manifest = json.loads((tree(installed) / "MANIFEST.json").read_text("utf-8"))
    assert manifest["collection_info"]["version"] == collection.semantic(collection.version())
    assert collection.semantic("1.2.0rc1") == "1.2.0-rc1"
    # galaxy.yml of another would be a second place
    listed = subprocess.run(
        ["git", "ls-files", "*galaxy.yml"],
        cwd=layout.ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert listed.stdout == ""


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_has_the_checkouts_tasks_elsewhere(installed: pathlib.Path, name: str) -> None:
    def tasks(shown: str) -> list[str]:
        # Ansible shows the tags of a play in no order
        text = re.sub(
            r"(?<=TAGS: \[)[^]]*",
            lambda found: ",".join(sorted(found[0].replace(" ", "").split(","))),
            shown.replace("gpustack.gpustack.", ""),
        )
        return [line for line in text.splitlines() if not line.startswith("playbook:")]

    inventory = f"--inventory={layout.ROOT / 'inventories' / 'example'}"
    there = command(
        installed, "ansible-playbook", inventory, "--list-tasks", f"gpustack.gpustack.{name}"
    )
    assert there.returncode == 0, there.stderr
    here = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), inventory, "--list-tasks",
         f"playbooks/{name}.yml"],
        cwd=layout.ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert len(tasks(here.stdout)) > 3
    assert tasks(there.stdout) == tasks(here.stdout)


def test_every_plugin_is_found_by_its_full_name(
    collection: types.ModuleType, installed: pathlib.Path
) -> None:
    names = collection.plugin_names(layout.ROOT / "roles")
    modules = {path.stem for path in (layout.ROOT / "roles").glob("*/library/*.py")}
    lookups = {path.stem for path in (layout.ROOT / "roles").glob("*/lookup_plugins/*.py")}
    filters = sorted(set(names) - modules - lookups)
    assert len(filters) > 20
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {"assert": {"that": f"'gpustack.gpustack.{name}' is filter"}} for name in filters
        ],
    }
    (installed / "filters.yml").write_text(yaml.safe_dump([play]))
    done = command(installed, "ansible-playbook", str(installed / "filters.yml"))
    assert done.returncode == 0, done.stdout
    text = "".join(
        path.read_text("utf-8")
        for part in ("roles", "playbooks")
        for pattern in ("*.yml", "*.j2")
        for path in (tree(installed) / part).rglob(pattern)
    )
    for name in names:
        assert f"gpustack.gpustack.{name}" in text, f"{name}: nothing uses it by its full name"
        assert not re.search(rf"(\| *|\(')({name})\b(?!\.)", text), name


def test_a_variable_with_the_name_of_a_filter_keeps_it(installed: pathlib.Path) -> None:
    for path in sorted((layout.ROOT / "roles").glob("*/meta/argument_specs.yml")):
        there = tree(installed) / path.relative_to(layout.ROOT)
        assert there.read_text("utf-8") == path.read_text("utf-8"), path


@pytest.mark.nightly
def test_a_role_in_it_makes_what_a_checkouts_makes(installed: pathlib.Path) -> None:
    pki = installed / "pki"
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "__gpustack_extender_pki": str(pki),
        "__gpustack_extender_renewal": str(installed / "renewal"),
        "__gpustack_extender_program": str(
            pathlib.Path(sys.executable).parent / "gpustack-extender"
        ),
        "__gpustack_extender_user": "root",
    }
    part = {"name": "gpustack.gpustack.gpustack_extender", "tasks_from": "trust"}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"include_role": part}]}
    (installed / "role.yml").write_text(yaml.safe_dump([play]))
    for changed in ("changed=4", "changed=1", "changed=0"):
        done = command(
            installed, "ansible-playbook", f"--extra-vars={json.dumps(host)}",
            str(installed / "role.yml"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        assert changed in done.stdout
    assert (pki / "ca.crt").read_text().count("BEGIN") == 2


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user: run it as root")
def test_a_user_runs_preflight_from_it_with_become(installed: pathlib.Path) -> None:
    """What needs root is asked of sudo, which is a recorder here; and preflight says its mind."""
    log = installed / "sudo.log"
    log.touch()
    log.chmod(0o666)
    sudo = installed / "sudo"
    sudo.write_text(f'#!/bin/sh\necho "$@" >> {log}\nfor last; do :; done\nexec sh -c "$last"\n')
    sudo.chmod(0o755)
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become_exe": str(sudo),
        "ansible_remote_tmp": str(installed / f"home-{NOBODY}" / "tmp"),
        "kube_scheduler_form": "nonsense",
    }
    inventory = {
        "kube_control_plane": {"hosts": {"cp1": host}},
        "gpu_nodes": {"hosts": {"gpu1": host}},
    }
    (installed / "hosts.yml").write_text(yaml.safe_dump(inventory))
    done = command(
        installed, "ansible-playbook", f"--inventory={installed}/hosts.yml",
        "gpustack.gpustack.site", user=NOBODY,
    )  # fmt: skip
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "kube_scheduler_form must be one of: configuration, policy" in said, said
    assert "see roles/kube_scheduler/README.md" in said
    assert "BECOME-SUCCESS" in log.read_text()
    # preflight stops it before a change
    assert "Install" not in said


def test_a_plugin_that_says_no_names_is_refused(
    collection: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(layout.ROOT / "roles" / "preflight", tmp_path / "preflight")
    (tmp_path / "preflight" / "filter_plugins" / "odd.py").write_text("class FilterModule: ...\n")
    with pytest.raises(collection.bundle.BundleError, match=r"odd\.py names no filter"):
        collection.plugin_names(tmp_path)


def test_ansible_galaxy_is_named_where_missing_and_quoted_where_it_fails(
    collection: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(collection.bundle.BundleError, match="run `make setup`"):
        collection.build(tmp_path)
    galaxy = tmp_path / "ansible-galaxy"
    galaxy.write_text("#!/bin/sh\necho no such namespace >&2\nexit 3\n")
    galaxy.chmod(0o755)
    with pytest.raises(collection.bundle.BundleError, match="no such namespace"):
        collection.build(tmp_path)


def test_the_archive_has_no_owners_and_times(
    collection: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    with tarfile.open(collection.build(tmp_path)) as tar:
        for member in tar.getmembers():
            assert (member.uid, member.uname, member.mtime) == (0, "", 315_532_800), member.name
            assert member.mode == (0o755 if member.isdir() else 0o644), member.name
