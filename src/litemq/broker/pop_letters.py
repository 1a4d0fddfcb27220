"""Dead letters of what was handed out too often."""

from __future__ import annotations

import logging
from collections.abc import Callable

from litemq.broker.pop_state import Key, PopStates
from litemq.broker.retries import Retries
from litemq.errors import CorruptRecord, LiteMQError
from litemq.features.pop import PopQueue
from litemq.format.pop_records import Kind, PopEntry
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_LETTERS_AT_ONCE = 100


class PopLetters:
    """Buries what a group could not be done with."""

    def __init__(
        self, store: MessageStore, retries: Retries, states: PopStates, *, appended: Callable[[], None]
    ) -> None:
        """``appended`` is called when dead letters were."""
        self._store = store
        self._retries = retries
        self._states = states
        self._appended = appended
        self._trouble = ""
        self.dead = self.gone = 0

    def bury(self, key: Key, queue: PopQueue) -> None:
        """Make dead letters of what was handed out too often, in the log before it is finished.

        A crash in between brings a letter twice, and loses none.
        """
        group, topic, queue_id = key
        offsets = queue.take_dead(_LETTERS_AT_ONCE)
        letters = []
        for offset in offsets:
            try:
                record = self._store.reader.message_at(topic, queue_id, offset)
            except CorruptRecord:
                record = None
            if record is not None:
                letters.append(self._retries.exhausted(record, group, queue.attempt(offset)[0]))
        try:
            if letters:
                self._store.append_many(letters)
        except LiteMQError as error:
            queue.dead.extendleft(reversed(offsets))
            if str(error) != self._trouble:  # it is tried again ten times a second
                self._trouble = str(error)
                logger.warning("dead letters not stored: group=%s topic=%s reason=%s", group, topic, error)
            return
        finished = [offset for offset in offsets if queue.finish(offset)]
        self.dead += len(letters)
        self.gone += len(offsets) - len(letters)
        if finished:
            self._states.record([PopEntry(Kind.FINISHED, *key, finished)])
            self._states.note_progress(key, queue)
        if letters:
            self._appended()
