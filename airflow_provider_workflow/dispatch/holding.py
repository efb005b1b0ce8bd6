"""Releases the messages of a lease that its task has not settled, also if the task is killed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_workflow.client.errors import WorkflowError

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.delivery import Delivery
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


class TaskKilled(BaseException):
    """
    Airflow killed the task.

    ``on_kill`` raises it if the task holds a lease, so that the lease is released. Otherwise the task raises
    it itself, before it leases or starts anything more.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        super().__init__(f"The task was killed while it worked on the inbox {inbox}")


@dataclass
class TaskLife:
    """
    Whether a task was killed, and whether it holds a lease at this moment.

    :param killed_by: the exception that :meth:`check` raises, before the task leases or starts anything more;
        None until the task is killed.
    """

    holds_lease: bool = False
    killed_by: BaseException | None = None

    def kill(self, inbox: str) -> None:
        """
        End the task: at once if it holds a lease, otherwise at its next :meth:`check`.

        :param inbox: id or name.
        :raises TaskKilled: the task holds a lease, which :func:`holding` then releases.
        """
        self.killed_by = TaskKilled(inbox)
        if self.holds_lease:
            raise self.killed_by

    def check(self) -> None:
        """:raises BaseException: the task was killed."""
        if self.killed_by is not None:
            raise self.killed_by


@contextmanager
def holding(
    lease: HeldLease,
    hook: WorkflowHook,
    task: TaskLife,
    acknowledge: Callable[[WorkflowHook], None] = lambda _: None,
) -> Iterator[dict[str, Delivery]]:
    """
    Hold a lease while a task works on its messages in the block, and release those that it has not settled.

    The block gets the deliveries by message id. It removes each message that it has settled, and each one
    that must stay with the lease. However the block ends, the messages that are left are released, so that
    they need not wait for the end of the lease.

    ``execution_timeout`` and ``on_kill`` end the block with an exception that is no ``Exception``. Then there
    is little time: each call is sent once, with a short timeout, and ``on_kill`` does not interrupt it.

    :param hook: sends the calls.
    :param acknowledge: acknowledges the finished messages of the block if it is ended in this way; called
        with a hook whose calls take little time.
    :raises BaseException: the exception that ended the block, or ``TaskKilled`` if the task was killed
        before.
    """
    unsettled = {delivery.id: delivery for delivery in lease.deliveries}
    try:
        task.holds_lease = True
        task.check()
        yield unsettled
        task.holds_lease = False
    except Exception:
        task.holds_lease = False
        lease.release(hook, list(unsettled))
        raise
    except BaseException:
        task.holds_lease = False
        with closing(hook.for_shutdown()) as shutdown_hook:
            with suppress(WorkflowError):
                acknowledge(shutdown_hook)
            lease.release(shutdown_hook, list(unsettled))
        raise
    lease.release(hook, list(unsettled))
