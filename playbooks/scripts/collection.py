"""Builds the Ansible collection `gpustack.gpustack` from a checkout's playbooks and roles.

    collection.py [--output FOLDER]

Ansible takes plugins from a checkout's roles, and from a collection's own folder `plugins/` alone,
where a template names them in full. So a copy of the tree is changed that way, and `ansible-galaxy
collection build` packs it. The same sources give the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence

import bundle
import yaml

NAMESPACE = NAME = "gpustack"
# Folders of a role and of a collection.
PLUGINS = {
    "filter_plugins": "filter",
    "library": "modules",
    "lookup_plugins": "lookup",
    "module_utils": "module_utils",
}
FILES = ("LICENSE", "CHANGELOG.md")
EXAMPLE = "inventories/example"
MONITORING = "monitoring"
ANSIBLE = ">=2.16.0"  # as the roles' meta/main.yml say


def version() -> str:
    """Return the version that gpustack/__init__.py names."""
    text = (bundle.ROOT / "gpustack" / "__init__.py").read_text("utf-8")
    (found,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(found)


def semantic(release: str) -> str:
    """Return a Python version as a semantic one: 1.2.0rc1 is 1.2.0-rc1."""
    return re.sub(r"(?<=\d)(a|b|rc)(\d+)$", r"-\1\2", release)


def qualified(text: str, names: Sequence[str], modules: Sequence[str]) -> str:
    """Return a playbook's or template's text with our plugins named in full.

    Args:
        text: of the file.
        names: of filters, lookups and modules.
        modules: those of modules; a variable may have the name of a filter.
    """
    full = f"{NAMESPACE}.{NAME}."
    used = rf"(\| *|\b(?:map|select|reject|lookup|query)\(')({_any_of(names)})\b(?!\.)"
    text = re.sub(used, rf"\1{full}\2", text)
    called = rf"^( *(?:- )?)({_any_of(modules)})(:)$"
    return re.sub(called, rf"\1{full}\2\3", text, flags=re.MULTILINE)


def _any_of(names: Sequence[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def plugin_names(roles: pathlib.Path) -> list[str]:
    """Return the names of all plugins of the roles, as templates and tasks write them."""
    found = {
        path.stem for kind in ("library", "lookup_plugins") for path in roles.glob(f"*/{kind}/*.py")
    }
    for path in roles.glob("*/filter_plugins/*.py"):
        entry = path.read_text("utf-8").partition("class FilterModule")[2]
        filters = re.findall(r'"(\w+)": \w+', entry)
        if not filters:
            raise bundle.BundleError(f"{path} names no filter: the collection would lack it")
        found.update(filters)
    return sorted(found)


def shared_code(text: str, plugins: pathlib.Path) -> str:
    """Return a module's text with the roles' `module_utils` imported from the collection."""
    names = _any_of([path.stem for path in (plugins / "module_utils").glob("*.py")])
    there = f"ansible_collections.{NAMESPACE}.{NAME}.plugins.module_utils"
    return re.sub(
        rf"^(from )ansible\.module_utils( import (?:{names})\b|\.(?:{names}) import )",
        rf"\1{there}\2",
        text,
        flags=re.MULTILINE,
    )


def stage(tree: pathlib.Path) -> None:
    """Write the collection's files into an empty folder."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "scripts")
    for name in ("playbooks", "roles", EXAMPLE):
        shutil.copytree(bundle.ROOT / name, tree / name, ignore=ignore)
    for name in FILES:
        shutil.copyfile(bundle.ROOT / name, tree / name)
    names = plugin_names(tree / "roles")
    modules = sorted(path.stem for path in tree.glob("roles/*/library/*.py"))
    for inner, outer in PLUGINS.items():
        (tree / "plugins" / outer).mkdir(parents=True)
        for folder in sorted((tree / "roles").glob(f"*/{inner}")):
            for path in sorted(folder.iterdir()):
                if (tree / "plugins" / outer / path.name).exists():
                    raise bundle.BundleError(f"{path}: another role has a plugin of this name")
                path.rename(tree / "plugins" / outer / path.name)
            folder.rmdir()
    for path in (tree / "plugins" / "modules").glob("*.py"):
        path.write_text(shared_code(path.read_text("utf-8"), tree / "plugins"), "utf-8")
    (tree / "playbooks" / "callback_plugins").rename(tree / "plugins" / "callback")
    for path in [*tree.rglob("*.yml"), *tree.rglob("*.j2")]:
        path.write_text(qualified(path.read_text("utf-8"), names, modules), "utf-8")
    # after that: Prometheus has filters of its own
    shutil.copytree(bundle.ROOT / MONITORING, tree / MONITORING, ignore=ignore)
    shutil.copyfile(bundle.ROOT / "playbooks" / "COLLECTION.md", tree / "README.md")
    (tree / "playbooks" / "COLLECTION.md").unlink()
    (tree / "meta").mkdir()
    write_yaml(tree / "meta" / "runtime.yml", {"requires_ansible": ANSIBLE})
    write_yaml(
        tree / "galaxy.yml",
        {
            "namespace": NAMESPACE,
            "name": NAME,
            "version": semantic(version()),
            "readme": "README.md",
            "authors": [NAMESPACE],
            "description": "Fractional, isolated, topology-aware NVIDIA GPUs for Kubernetes",
            "license_file": "LICENSE",
            "tags": ["gpu", "nvidia", "kubernetes", "scheduler", "infrastructure"],
            "dependencies": {"kubernetes.core": ">=5.0.0"},
        },
    )


def write_yaml(path: pathlib.Path, content: Mapping[str, object]) -> None:
    """Write a YAML file with its keys in the order given."""
    path.write_text("---\n" + yaml.safe_dump(dict(content), sort_keys=False), "utf-8")


def normalise(made: pathlib.Path, archive: pathlib.Path) -> None:
    """Pack what ansible-galaxy has made once more, in order and without times, owners and modes.

    ansible-galaxy lists files in the order of the file system, and packs them with their times.
    """
    with tarfile.open(made) as tar:
        members = {each.name: tar.extractfile(each) for each in tar.getmembers()}
        content = {name: stream.read() if stream else None for name, stream in members.items()}
    files = json.loads(content["FILES.json"] or b"")
    files["files"].sort(key=lambda each: str(each["name"]))
    content["FILES.json"] = json.dumps(files, indent=1).encode()
    manifest = json.loads(content["MANIFEST.json"] or b"")
    listed = hashlib.sha256(content["FILES.json"]).hexdigest()
    manifest["file_manifest_file"]["chksum_sha256"] = listed
    content["MANIFEST.json"] = json.dumps(manifest, indent=1).encode()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in sorted(content.items()):
            member = tarfile.TarInfo(name)
            member.mtime = bundle.EPOCH_SECONDS
            member.mode = 0o755 if data is None else 0o644
            member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            member.size = len(data or b"")
            tar.addfile(member, io.BytesIO(data or b""))
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=0))


def build(into: pathlib.Path) -> pathlib.Path:
    """Build the collection into a folder and return its archive's path.

    Raises:
        BundleError: ansible-galaxy isn't there, or refuses the collection.
    """
    galaxy = shutil.which("ansible-galaxy", path=str(pathlib.Path(sys.executable).parent))
    if galaxy is None:
        raise bundle.BundleError("ansible-galaxy is missing beside this Python: run `make setup`")
    with tempfile.TemporaryDirectory(prefix="gpustack-collection-") as scratch:
        tree = pathlib.Path(scratch, "tree")
        tree.mkdir()
        stage(tree)
        made = pathlib.Path(scratch, "made")
        command = [galaxy, "collection", "build", str(tree), f"--output-path={made}"]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise bundle.BundleError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        (found,) = made.glob("*.tar.gz")
        into.mkdir(parents=True, exist_ok=True)
        normalise(found, into / found.name)
        return into / found.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, build, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=bundle.ROOT / "dist")
    options = parser.parse_args(arguments)
    try:
        archive = build(options.output.resolve())
    except bundle.BundleError as error:
        sys.stderr.write(f"collection: {error}\n")
        return 1
    sys.stdout.write(f"{archive}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
