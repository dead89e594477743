"""How well shares of GPU time hold in virtual time, beside other limiters on the same time line.

``hook/tests/sim/sim_share.c`` plays them; here its lines become tables and a picture.
"""

import dataclasses
import math
import pathlib
import re
import subprocess
from collections.abc import Mapping, Sequence

from matplotlib import axes, figure

GOAL_POINTS = 3  # by which a share may be missed
GOAL_SPAN_POINTS = 8  # the same of any two seconds after the first two, kernels of up to 5 ms
GOAL_LOSS = 3  # percent of a share that the limiter may cost; 1 where nothing is limited
_SIMULATED = (
    "Played against a simulated card whose tenants keep to the rules; no real card has run it."
    " What tenants that break the rules get: [isolation](isolation.md)."
)
PICTURE = pathlib.PurePosixPath("images/shares.png")  # below docs

_CELL = re.compile(
    r"(?P<name>.+?)\s+\d+\s+(?P<got>[\d.]+) % of\s+(?P<share>[\d.]+) %\s+(?P<error>\S+)"
)
_COMPARED = re.compile(
    r"compared, (?P<tenants>\d+) tenants?\s*,\s+(?P<share>\d+) % each, (?P<length>\d+ \w+)"
    r"\s+ours\s+(?P<ours>\S+) %\s+original\s+(?P<original>\S+) %\s+plain bucket\s+(?P<plain>\S+) %"
)
_COUNTS = {
    "exact": ("--lag=0",),
    "exact, and known to be so": ("--lag=0", "--good"),
    "0.2 s late": ("--lag=4",),
    "0.2 s late, and known to be so": ("--lag=4", "--good"),
    "1 s late": ("--lag=20",),
    "1 s late, and known to be so": ("--lag=20", "--good"),
    "each window of 1/6 s given to one process": ("--drawn",),
}
_LINES = {
    "ours": ("ours", "tab:blue", "o"),
    "original": ("the original's", "tab:red", "s"),
    "plain": ("a plain token bucket", "tab:gray", "^"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one tenant of the matrix got; all in percent of the card."""

    name: str
    share: float
    got: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the first tenant got under each limiter; all in percent of the card."""

    tenants: int
    length: str  # of its kernels
    share: float
    got: dict[str, float]


def section(program: pathlib.Path, docs: pathlib.Path) -> str:
    """Play everything, draw the picture below ``docs`` and return the page's part.

    Raises:
        RuntimeError: a share is missed by more than the goal; the message names the cells.
    """
    cells = _cells(_played(program, "--print", "--full"))
    compared = [
        Compared(
            tenants=int(each["tenants"]), length=each["length"], share=float(each["share"]),
            got={name: float(each[name]) for name in _LINES},
        )
        for each in filter(None, map(_COMPARED.match, _played(program, "--compare", "--full")))
    ]  # fmt: skip
    draw(docs / PICTURE, compared, losses(cells))
    spans = {
        counts: _cells(_played(program, "--print", "--spans", *_COUNTS[counts]))
        for counts in ("exact, and known to be so", "0.2 s late, and known to be so")
    }
    return "\n".join((_matrix(cells), _spans(spans), _other_counts(program), _rivals(compared)))


def _cells(lines: Sequence[str]) -> list[Cell]:
    return [
        Cell(name=each["name"], share=float(each["share"]), got=float(each["got"]))
        for each in filter(None, map(_CELL.match, lines))
    ]


def losses(cells: Sequence[Cell]) -> dict[str, list[tuple[float, float]]]:
    """Return for each kernel length (share, percent of it that the limiter cost), by share.

    A tenant that gets a little more than its share has lost nothing.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.name.startswith("loss, "):
            cost = max(0.0, 100 * (cell.share - cell.got) / cell.share)
            found.setdefault(cell.name.removeprefix("loss, "), []).append((cell.share, cost))
    return {length: sorted(points) for length, points in found.items()}


def draw(
    path: pathlib.Path,
    compared: Sequence[Compared],
    lost: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """Write the picture.

    A panel for each kernel length, one for two tenants, and one for what our limiter costs.
    """
    lengths = list(dict.fromkeys(each.length for each in compared))
    canvas = figure.Figure(figsize=(14, 7), layout="constrained")
    panels = list(canvas.subplots(2, 4).flat)
    for length, panel in zip(lengths, panels, strict=False):
        alone = [each for each in compared if each.tenants == 1 and each.length == length]
        _draw_errors(panel, alone, [each.share for each in alone])
        panel.set_title(f"one tenant, kernels of {length}")
        panel.set_xlabel("share, percent of the card")
    pairs = [each for each in compared if each.tenants == 2]
    _draw_errors(panels[-2], pairs, [each.length for each in pairs])
    panels[-2].set_title("30 % beside 30 %")
    panels[-2].set_xlabel("kernels of both")
    _draw_losses(panels[-1], lost)
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file leaves out the version of matplotlib: the same figures give the same file.
    canvas.savefig(path, dpi=110, metadata={"Software": None})


def _draw_errors(
    panel: axes.Axes, compared: Sequence[Compared], places: Sequence[float | str]
) -> None:
    """Errors reach from hundredths of a point to dozens: logarithmic beyond the goal."""
    panel.axhspan(-GOAL_POINTS, GOAL_POINTS, color="tab:green", alpha=0.15, label="the goal")
    panel.set_yscale("symlog", linthresh=GOAL_POINTS)
    panel.set_ylim(-100, 100)
    panel.set_yticks(
        ticks := [-100, -30, -10, -3, 0, 3, 10, 30, 100], [str(each) for each in ticks]
    )
    panel.set_ylabel("error, points of the card")
    for name, (label, colour, marker) in _LINES.items():
        errors = [each.got[name] - each.share for each in compared]
        panel.plot(list(places), errors, color=colour, marker=marker, label=label)


def _draw_losses(panel: axes.Axes, lost: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    panel.axhspan(0, GOAL_LOSS, color="tab:green", alpha=0.15)
    panel.set_title("what ours takes of a share")
    panel.set_xlabel("share, percent of the card")
    panel.set_ylabel("percent of the share")
    panel.set_ylim(0, 2 * GOAL_LOSS)
    for length, points in lost.items():
        panel.plot(*zip(*points, strict=True), marker=".", label=length)
    panel.legend(title="kernels", fontsize="small", ncols=2)


def _matrix(cells: Sequence[Cell]) -> str:
    rows = []
    for name in dict.fromkeys(each.name for each in cells):
        errors = [each.got - each.share for each in cells if each.name == name]
        squares = sum(error * error for error in errors) / len(errors)
        worst = max(errors, key=abs)
        rows.append(f"| {name} | {len(errors)} | {worst:+.2f} | {math.sqrt(squares):.2f} |")
    return "\n".join(
        [
            "## Shares of GPU time on a simulated card, in virtual time, by kernel length",
            "",
            _SIMULATED,
            "",
            "| work | tenants in its cells | worst error, points | root mean square |",
            "|---|---|---|---|",
            *rows,
            "",
            "Shares of 10 to 90 %, up to 8 tenants, time slices of 2 ms, over 10 s or 40 kernels."
            f" Goal: {GOAL_POINTS} points. The driver's count of a process is told in whole percent"
            " and 0.2 s late.",
            "",
        ]
    )


def _spans(played: Mapping[str, Sequence[Cell]]) -> str:
    """Return what each tenant got in the two seconds that miss its share by most."""
    rows = []
    for counts, cells in played.items():
        worst = max(cells, key=lambda each: abs(each.got - each.share))
        missed = [each for each in cells if abs(each.got - each.share) > GOAL_SPAN_POINTS]
        names = ", ".join(dict.fromkeys(each.name for each in missed))
        rows.append(
            f"| {counts} | {len(missed)} of {len(cells)}{f': {names}' if names else ''} |"
            f" {worst.got - worst.share:+.2f} | {worst.name} |"
        )
    return "\n".join(
        [
            "## Two seconds on a simulated card, of kernels of up to 5 ms",
            "",
            _SIMULATED,
            "",
            f"| the driver's count of a process | missed by {GOAL_SPAN_POINTS} points |"
            " worst error, points | of |",
            "|---|---|---|---|",
            *rows,
            "",
            "Of each tenant the two seconds, after the first two, that miss its share by most.",
            "",
        ]
    )


def _other_counts(program: pathlib.Path) -> str:
    """Return the errors of shared cards where NVML counts differently; none of them is a goal."""
    rows = []
    for counts, arguments in _COUNTS.items():
        errors = [
            float(each["got"]) - float(each["share"])
            for each in filter(
                None, map(_CELL.match, _answer(program, "--print", *arguments).stdout.splitlines())
            )
            if not each["name"].startswith(("alone", "burst", "loss", " "))
        ]
        missed = sum(abs(error) > GOAL_POINTS for error in errors)
        squares = sum(error * error for error in errors) / len(errors)
        worst = max(errors, key=abs)
        rows.append(
            f"| {counts} | {missed} of {len(errors)} | {worst:+.2f} | {math.sqrt(squares):.2f} |"
        )
    return "\n".join(
        [
            "## Simulated cards that are shared, by how the driver counts GPU time",
            "",
            _SIMULATED,
            "",
            f"| the driver's count of a process | missed by {GOAL_POINTS} points |"
            " worst error, points | root mean square |",
            "|---|---|---|---|",
            *rows,
            "",
            "Fewer shares and tenants than above. Without a count that tells processes apart within"
            " ten seconds, kernels longer than a time slice can't be told from their neighbours'"
            " ([0006](decisions/0006-gpu-time.md)).",
            "",
        ]
    )


def _rivals(compared: Sequence[Compared]) -> str:
    rows = [
        f"| {each.tenants} | {each.length} | {each.got['ours']:.2f} % |"
        f" {each.got['original']:.2f} % | {each.got['plain']:.2f} % |"
        for each in sorted(compared, key=lambda each: each.tenants)
        if each.share == 30
    ]
    return "\n".join(
        [
            "## The same simulated card under other controllers: what a share of 30 % got",
            "",
            _SIMULATED,
            "",
            "| tenants | kernel | ours | the original's | a plain token bucket |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"![What shares of 10 to 90 % got under each, and what ours costs]({PICTURE})",
            "",
        ]
    )


def _answer(program: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)


def _played(program: pathlib.Path, *arguments: str) -> list[str]:
    answer = _answer(program, *arguments)
    lines = answer.stdout.splitlines()
    if answer.returncode:
        missed = "\n".join(line for line in lines if line.endswith("MISSED"))
        message = f"{program.name} ended with {answer.returncode}\n{missed}{answer.stderr}"
        raise RuntimeError(message)
    return lines
