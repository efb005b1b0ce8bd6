"""
How many messages the next lease of a drain or of a batch task has.

A lease costs each of its messages one of about five deliveries. These are lost if the process is killed: by
the size of the lease, or by one of its messages. The service does not say which; it only says how often a
message was delivered. So leases grow step by step, and shrink to one message if nothing explains how an
earlier delivery ended.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LeaseSize:
    """
    The number of messages of the next lease of one try of a task.

    - The first lease has one message. Each further one has up to twice as many as were *decided* in the lease
      before: their runs were started or found, or they were rejected.
    - After a lease with an unexplained message, the next one has one message again. A message is unexplained
      if an earlier delivery of it had no outcome, and this task did not release it: it may have killed the
      process.
    - Each failed try halves the largest lease, because its size may have killed that try.

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
        Set the size of the next lease by the outcome of the last one.

        :param requested: how many messages the last lease could have had. If these were fewer than its size,
            because there was no capacity for more, the size stays.
        :param decided: how many of its messages were decided.
        :param is_explained: whether none of its messages is unexplained.
        """
        if not is_explained:
            self._size = 1
        elif requested >= self.next:
            self._size = max(1, 2 * decided)
