"""
How many messages the next lease of a drain or of a batch task has.

A lease costs each of its messages one of about five deliveries, also if it kills the process: by its size, or
by one of its messages. The service tells neither, only how often a message was delivered. So leases grow step
by step, and shrink to one message where an earlier delivery has no explanation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LeaseSize:
    """
    The number of messages of the next lease of one try of a task.

    - The first lease has one message, and each further one up to twice as many as the one before *decided*
      about: their runs were started or found, or they were rejected.
    - After a lease with a redelivered message whose run was started only now, one message again: nothing
      explains how its earlier delivery ended, so a message may be killing the process.
    - Each failed try halves the largest lease, as the try may have been killed by its size.

    :param limit: messages per lease, 1 to 100.
    :param attempt: try of the task, 1 or more.
    """

    limit: int
    attempt: int = 1
    _size: int = 1

    @property
    def next(self) -> int:
        """The number of messages of the next lease, 1 to ``limit``."""
        return max(1, min(self._size, self.limit >> (self.attempt - 1)))

    def add_lease(self, requested: int, decided: int, *, is_explained: bool) -> None:
        """
        Let the next size follow from a lease that was worked on.

        :param requested: how many messages it could have had: if there was no capacity for more, the size
            stays.
        :param decided: how many of its messages were decided about.
        :param is_explained: whether the earlier deliveries of all of them are explained.
        """
        if not is_explained:
            self._size = 1
        elif requested >= self.next:
            self._size = max(1, 2 * decided)
