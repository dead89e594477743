"""The packages that the role nvidia_driver chooses among, for a table of docs/reference."""

from collections.abc import Iterator
from typing import Final

from tests.ansible import plugins

HEADS: Final = ("platform", "for", "package, and its page")


def lines() -> Iterator[tuple[str, str, str]]:
    """Yield each package with the vendor's page of it, by platform and by what it is for."""
    plugin = plugins.load("roles/nvidia_driver/filter_plugins/nvidia_driver.py")
    for name, platform in plugin.PLATFORMS.items():
        uses = {
            platform.proprietary: "proprietary modules, built on the host",
            platform.open: "open modules, built on the host",
            **dict.fromkeys(platform.others, "each host"),
        }
        if platform.precompiled:
            # beside that of each kernel, whose name ends with the kernel's version
            for kind, form in {"proprietary": "", "open": "-open"}.items():
                uses[f"{platform.precompiled}{form}-generic"] = f"{kind} modules, built by Ubuntu"
        if platform.fabric_manager:
            uses[platform.fabric_manager] = "hosts with NVSwitches"
        for form, use in uses.items():
            package = form.format(branch=platform.branch)
            yield name, use, f"[`{package}`]({platform.pages}/{package})"
