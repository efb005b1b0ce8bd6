"""Releases the messages of a lease that its task leaves without a decision, also if the task is killed."""

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
    The task was killed while it held a lease. Raised by ``on_kill``, so that the lease is released.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        super().__init__(f"The task was ended while it worked on a lease of the inbox {inbox}")


@dataclass
class TaskLife:
    """
    Whether a task was killed, and whether it holds a lease at this moment.

    :param killed_by: raised at the next step, instead of leasing or starting anything more; None while the
        task lives.
    """

    holds_lease: bool = False
    killed_by: BaseException | None = None

    def kill(self, inbox: str) -> None:
        """
        End the task.

        :param inbox: id or name.
        :raises TaskKilled: the task holds a lease, which is released now.
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
    Hold a lease while a task works on its messages, and release those that it leaves in the block.

    The block gets the deliveries by message id. It removes each message that it has settled, or that stays
    with the lease. However the block ends, the other messages are released, so that they need not wait for
    the end of the lease.

    ``execution_timeout`` and ``on_kill`` end the block with exceptions that are no errors. Then there is
    little time: each call is sent once, with a short timeout, and ``on_kill`` does not interrupt it.

    :param hook: sends the calls.
    :param acknowledge: called with a hook that hurries if the task is killed: acknowledges what is finished.
    :raises BaseException: the exception that ended the block, or the task before it.
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
