"""A placement as a cell of a table."""

from gpustack.model.placement import Placement


def cards_cell(placement: Placement) -> str:
    """Return each container's cards: `main=0,1`; and whether better ones may exist."""
    cells = [f"{each.name}={','.join(map(str, each.minors))}" for each in placement.containers]
    doubt = ["(not proven best: the search was stopped)"] if placement.gap is not None else []
    return " ".join((*cells, *doubt))
