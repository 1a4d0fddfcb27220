"""Transactions of one read: half messages and ends that need nothing looked up, appended with one write.

A crash within the write leaves its beginning, so that at most the last commit lacks its op record, as with a single
one.  What is not ordinary is refused here, and goes the way of ``Transactions.begin`` and ``end``.
"""

from __future__ import annotations

from litemq.broker.half_log import Decision
from litemq.broker.transactions import Ending, Transactions
from litemq.errors import LiteMQError
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message


class TransactionRun:
    """Collects what is to be appended; ``append`` does it once."""

    def __init__(self, store: MessageStore, transactions: Transactions) -> None:
        self._store = store
        self._transactions = transactions
        self._messages: list[Message] = []
        self._begun: list[int] = []
        """Which of them are half messages."""
        self._ended: dict[int, tuple[Decision, int]] = {}
        """Offset of a half message → how it ends, and which is the op record of that."""

    def begin(self, message: Message, group: str) -> int:
        """Take a message that waits for its end; return its number in the run.

        Raises:
            LiteMQError: as for ``Transactions.begin``.
        """
        waiting = self._transactions.waiting(message, group)
        self._begun.append(len(self._messages))
        self._messages.append(waiting)
        return len(self._messages) - 1

    def end(self, ending: Ending) -> bool:
        """Take the end of a transaction; False: it is not one that was just begun and is ended for the first time."""
        if ending.decision is Decision.UNKNOWN or ending.offset in self._ended:
            return False
        messages = self._transactions.ordinary_end(ending)
        if messages is None:
            return False
        self._messages += messages
        self._messages.append(self._transactions.ends.op(ending.offset))
        self._ended[ending.offset] = (ending.decision, len(self._messages) - 1)
        return True

    def append(self) -> list[Appended]:
        """Append everything, and note what became of the transactions; return where each message went.

        Raises:
            LiteMQError: ``appended`` lists what is in the log all the same, and is noted.
        """
        try:
            appended = self._store.append_whole(self._messages)
        except LiteMQError as error:
            self._note([one for one in error.appended if isinstance(one, Appended)])
            raise
        self._note(appended)
        return appended

    def _note(self, appended: list[Appended]) -> None:
        transactions = self._transactions
        for number in self._begun:
            if number < len(appended):
                transactions.note_begun(self._messages[number], appended[number])
        for offset, (decision, number) in self._ended.items():
            if number < len(appended) or (decision is Decision.COMMIT and number - 1 < len(appended)):
                transactions.note_ended(offset, decision)
                if decision is Decision.COMMIT:
                    transactions.ends.note_sent(self._messages[number - 1], appended[number - 1])
