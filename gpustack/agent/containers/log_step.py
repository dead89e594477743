"""The line of the log about a step of a container with cards."""

import logging

from gpustack.agent.containers.allocation_records import ContainerRecord, PodRecord

logger = logging.getLogger(__name__)


def log_step(step: str, record: PodRecord, container: ContainerRecord) -> None:
    """Log that a container was allocated or verified, with its cards."""
    placement = container.placement
    logger.info(
        "%s pod=%s/%s container=%s cards=%s cores=%d memory_units=%d",
        step,
        record.namespace,
        record.name,
        container.name,
        ",".join(map(str, placement.minors)),
        placement.cores,
        placement.memory_units,
    )
