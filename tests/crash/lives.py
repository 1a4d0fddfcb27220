"""Put a store through its lives: open, work, crash, open again; check it after each opening."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

from tests.crash import oracle
from tests.crash.model import Memory
from tests.crash.oracle import require
from tests.crash.workload import (
    FITTED_TOPIC,
    Advance,
    Append,
    DeleteGroup,
    DeleteTopic,
    Fit,
    LifePlan,
    Plan,
    Purge,
    SetGroup,
    SetTopic,
    Simple,
    Step,
    Tick,
    Twins,
)
from tests.support.forgetful_fs import GIB, ForgetfulFileSystem, PowerCut
from tests.support.hooked_fs import HookedFileSystem
from tests.support.page_cache import Fate
from tests.support.power_switch import EndAt

from litemq.errors import FlushTimeout, UnknownTopic
from litemq.store.fs import FileSystem
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message, Status

Wrap = Callable[[FileSystem], FileSystem]

_PATIENCE = 300
"""So many timeouts in a row, and the flush thread of a running machine is taken for dead."""


class Life:
    """One open store; every step leaves its notes in the memory."""

    def __init__(self, memory: Memory, fs: FileSystem, disk: FileSystem) -> None:
        self.memory = memory
        self._disk = disk
        """The same files, seen past all hooks."""
        self._fs = fs
        self.store = self._open()

    def _open(self) -> MessageStore:
        memory = self.memory
        return MessageStore.open(memory.root, memory.config, fs=self._fs, clock=memory.clock, background=memory.threads)

    def do(self, step: Step) -> None:
        """Take one step."""
        match step:
            case Append(messages, together):
                self._append(list(messages), together=together)
            case Fit(left, mark):
                self._fit(left, mark)
            case Twins(count):
                for message in self.memory.lost[:count]:
                    self._append([_twin(message)], together=False)
            case Tick(ms):
                self.memory.note(self.memory.scan(self._disk))
                self.memory.clock.advance(ms)
                self.store.tick()
            case Advance(group, topic, queue_id, share):
                offset = int(share * (self.store.reader.max_offset(topic, queue_id) + 0.99))
                self.memory.commits.setdefault((group, topic, queue_id), []).append(offset)
                self.store.progress.commit(group, topic, queue_id, offset)
            case Simple(call):
                self._simple(call)
            case _:
                self._change(step)
        self.memory.flushed = max(self.memory.flushed, self.store.flushed_end)
        if not self.memory.threads or step == Simple("checkpoint"):  # else one may be under way
            self.memory.checkpointed = oracle.checkpointed(self.memory, self._disk)

    def _simple(self, call: str) -> None:
        self.memory.note(self.memory.scan(self._disk))
        match call:
            case "flush":
                self.store.flush()
            case "checkpoint":
                self.store.checkpoint()
            case "retain":
                self.store.retain()
            case "squeeze":
                self._squeeze()
            case "reopen":
                self.reopen()

    def _squeeze(self) -> None:
        if isinstance(self._disk, ForgetfulFileSystem):
            self._disk.set_disk(total_bytes=60 * GIB, free_bytes=8 * GIB)
            self.store.retain()
            self._disk.set_disk(total_bytes=1000 * GIB, free_bytes=900 * GIB)

    def reopen(self) -> None:
        """Stop cleanly and start again."""
        memory = self.memory
        self.store.close()
        memory.note(memory.scan(self._disk))
        oracle.check_closed(memory, self._disk)
        self.store = self._open()
        require(self.store.was_clean, "a clean stop is taken for a crash")
        oracle.check_tables(memory, self.store)

    def _change(self, step: Step) -> None:
        store, memory = self.store, self.memory
        match step:
            case SetTopic(topic, queues):
                store.put_topic(topic, {"readQueueNums": queues, "writeQueueNums": queues})
            case DeleteTopic(topic):
                try:
                    position = store.delete_topic(topic).position
                except UnknownTopic:
                    return
                memory.forget_progress(position, lambda key: key[1] == topic)
            case Purge(topic, queue_id, share):
                store.purge(topic, {queue_id: int(share * store.reader.max_offset(topic, queue_id))})
            case SetGroup(group, retries):
                store.put_group(group, {"retryMaxTimes": retries})
            case DeleteGroup(group):
                memory.forget_progress(store.delete_group(group).position, lambda key: key[0] == group)

    def _append(self, messages: list[Message], *, together: bool) -> None:
        for message in messages:
            self.memory.keys |= {(message.topic, key) for key in (*message.keys, message.message_id) if key}
        if together:
            self._appended(messages, self.store.append_many(messages))
        else:
            for message in messages:
                self._appended([message], [self.store.append(message)])

    def _appended(self, messages: list[Message], answers: list[Appended]) -> None:
        for message, answer in zip(messages, answers, strict=True):
            self.memory.messages[answer.position] = (message, answer)
            if message.status in (Status.NORMAL, Status.COMMITTED):
                queue = (message.topic, message.queue_id)
                wanted = self.memory.next_offsets.get(queue, 0)
                require(answer.queue_offset == wanted, f"{queue} goes on with {answer.queue_offset}, not {wanted}")
                self.memory.next_offsets[queue] = wanted + 1
        if answers:
            self._wait_durable(answers[-1].end)
            if self.memory.config.flush != "async":
                require(self.store.flushed_end >= answers[-1].end, "wait_durable came back too early")

    def _wait_durable(self, end: int) -> None:
        for _ in range(_PATIENCE):
            try:
                self.store.wait_durable(end)
            except FlushTimeout:
                self._disk.exists(self.memory.root)  # without power it says so: a thread that died cannot
            else:
                return
        raise oracle.Wrong(f"nobody flushes what was appended up to {end}")

    def _fit(self, left: int, mark: str) -> None:
        memory = self.memory
        size = 0
        if memory.overhead is not None:
            assert memory.config.segment_bytes is not None
            room = memory.config.segment_bytes - self.store.appended_end % memory.config.segment_bytes
            size = max(0, min(room - left - memory.overhead, memory.config.max_body_bytes) - len(mark))
        message = Message(FITTED_TOPIC, mark.encode() + b"f" * size)
        answer = self.store.append(message)
        self._appended([message], [answer])
        memory.overhead = answer.end - answer.position - len(message.body)


def _twin(message: Message) -> Message:
    """Return a message of the same shape with another body."""
    return Message(
        message.topic,
        bytes(byte ^ 1 for byte in message.body),
        queue_id=message.queue_id,
        message_id=message.message_id,
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        born_time=message.born_time,
        born_host=message.born_host,
        status=message.status,
    )


class Machine:
    """The computer under a store: a disk that forgets, and a switch."""

    def __init__(self, wrap: Wrap) -> None:
        self.disk = ForgetfulFileSystem()
        self.switch = self._switch()
        self._wrap = wrap

    def start_process(self) -> FileSystem:
        """Return the file system as a new process sees it."""
        self.switch = self._switch()
        self.disk.set_disk(total_bytes=1000 * GIB, free_bytes=900 * GIB)
        return HookedFileSystem(self._wrap(self.disk), self.switch)

    def end_process(self) -> None:
        """Let the process die; what it wrote is there."""
        self.disk = self.disk.kill()

    def power_cut(self, rng: Random, fate: Fate | None = None) -> None:
        """Let the power go, and come back."""
        self.disk = self.disk.crash(rng, fate=fate)

    def _switch(self) -> EndAt:
        disk = self.disk  # a thread of a process that is gone must not cut the next one's power

        def power_off() -> None:
            disk.stop()
            raise PowerCut

        return EndAt(-1, "before", power_off)


def run(plan: Plan, wrap: Wrap = lambda fs: fs) -> Memory:
    """Put a new store through a plan; raise when it breaks a promise.

    ``wrap`` is put around the file system that the store sees.
    """
    memory = Memory(plan.config, threads=plan.threads)
    machine = Machine(wrap)
    with _explained(memory):
        for number, life in enumerate(plan.lives):
            memory.said.append(f"life {number}")
            _live(memory, machine, life)
        memory.said.append("last life")
        life_after = _begin(memory, machine)
        life_after.do(Append((Message("alpha", b"the end|"),), together=False))
        life_after.reopen()
        oracle.check_reads(memory, life_after.store, memory.scan(machine.disk))
        life_after.store.close()
        memory.said.append("closed, power cut")
        machine.end_process()
        machine.power_cut(Random(plan.seed))
        oracle.check_closed(memory, machine.disk)
        life_after = Life(memory, machine.start_process(), machine.disk)
        require(life_after.store.was_clean, "a clean stop is taken for a crash")
        oracle.check_reads(memory, life_after.store, memory.scan(machine.disk))
        life_after.store.close()
    return memory


@contextmanager
def _explained(memory: Memory) -> Iterator[None]:
    """Let whatever goes wrong say what happened before."""
    try:
        yield
    except Exception as error:
        error.add_note("\n".join(("what happened:", *memory.said)))
        raise


def _begin(memory: Memory, machine: Machine, plan: LifePlan | None = None) -> Life:
    """Open the store after a crash and check it."""
    image = oracle.take_image(memory, machine.disk)
    oracle.check_claims(memory, image)
    fs = machine.start_process()
    if plan is not None and plan.cut.step == -1:
        machine.switch.arm(plan.cut.call, plan.cut.moment)
    life = Life(memory, fs, machine.disk)
    machine.switch.arm(-1, "before")
    oracle.check_open(memory, life.store, machine.disk, image)
    return life


def _end(life: Life | None, machine: Machine) -> None:
    """Let the process die, and its threads with it."""
    machine.end_process()
    if life is not None and life.memory.threads:
        with suppress(PowerCut):
            life.store.abandon()


def _live(memory: Memory, machine: Machine, plan: LifePlan) -> None:
    """Live through one plan, to its crash."""
    is_open = False
    life: Life | None = None
    try:
        life = _begin(memory, machine, plan)
        is_open = True
        for number, step in enumerate(plan.steps):
            memory.said.append(f"  {number}: {step}")
            if step == Simple("kill"):
                _end(life, machine)
                memory.note(memory.scan(machine.disk))
                life = _begin(memory, machine)
                continue
            if number == plan.cut.step:
                machine.switch.arm(plan.cut.call, plan.cut.moment)
            life.do(step)
            if number == plan.cut.step:
                break
        memory.said.append("  end")
    except (PowerCut, FlushTimeout):  # above the dirty limit an append waits, perhaps for a thread that died
        memory.said.append(
            f"  cut {plan.cut.moment} mutating call {plan.cut.call} {'of it' if is_open else 'of opening'}"
        )
    _end(life, machine)
    log = memory.scan(machine.disk)
    if is_open:
        memory.note(log)
        oracle.check_written(memory, log)
    else:
        memory.note_opening(log)
    if plan.power:
        machine.power_cut(Random(plan.seed), plan.fate)
        memory.said.append("  power cut")
