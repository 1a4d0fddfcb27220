"""Kernel: fill Arrow-ready buffers from record bytes; what for and how they look: ``columns.py``.

Records were checked by ``scan``: no length is compared with anything here.  A record that the fast ways below do not
know (a property twice, reserved properties, compression) is *odd* and takes the longer way through a ``Record``.
The plain twin is ``_columns_py.py``.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.string cimport memcmp, memcpy, memset

from litemq.format._byte_order_h cimport i32, i64, u16, u32
from litemq.format._text_cy cimport is_utf8

from litemq.format import hosts
from litemq.format import rows as layout
from litemq.format.names import STATUS_NAMES, TYPE_NAMES

ctypedef const unsigned char* Bytes

cdef Py_ssize_t WIDTH = layout.WIDTH
cdef Py_ssize_t POSITION = layout.POSITION
cdef Py_ssize_t SIZE = layout.SIZE
cdef Py_ssize_t QUEUE_ID = layout.QUEUE_ID
cdef Py_ssize_t QUEUE_OFFSET = layout.QUEUE_OFFSET
cdef Py_ssize_t STORE_TIME = layout.STORE_TIME
cdef Py_ssize_t STATUS = layout.STATUS
cdef Py_ssize_t TOPIC_AT = layout.TOPIC_AT
cdef Py_ssize_t TOPIC_SIZE = layout.TOPIC_SIZE
cdef Py_ssize_t ID_AT = layout.ID_AT
cdef Py_ssize_t ID_SIZE = layout.ID_SIZE
cdef Py_ssize_t KEYS_AT = layout.KEYS_AT
cdef Py_ssize_t KEYS_COUNT = layout.KEYS_COUNT
cdef Py_ssize_t PROPERTIES_AT = layout.PROPERTIES_AT
cdef Py_ssize_t PROPERTIES_SIZE = layout.PROPERTIES_SIZE
cdef Py_ssize_t BODY_AT = layout.BODY_AT
cdef Py_ssize_t BODY_SIZE = layout.BODY_SIZE
cdef Py_ssize_t SYS_FLAG = layout.SYS_FLAG
cdef Py_ssize_t REST_AT = layout.REST_AT

cdef long long FIRST_TIME = -62135596800000
cdef long long LAST_TIME = 253402300799999
# Literals this large would be Python objects to the compiler.
cdef long long FAR = 0x7FFFFFFFFFFFFFFF
cdef unsigned long long FNV_START = 14695981039346656037
cdef unsigned long long FNV_STEP = 1099511628211
cdef int MOST_PAIRS = 64  # more properties than that are compared by the longer way

cdef list _TYPES = [name.encode() for name in TYPE_NAMES]
cdef list _STATUSES = [name.encode() for name in STATUS_NAMES]


def is_compiled():
    """Return whether this module runs as machine code."""
    return True


# -- buffers ------------------------------------------------------------------------------------


cdef class Buffer:
    """Bytes that grow."""

    cdef bytearray data
    cdef unsigned char* p
    cdef Py_ssize_t used
    cdef Py_ssize_t room

    def __cinit__(self):
        self.begin()

    cdef int begin(self) except -1:
        self.data = bytearray()
        self.room = 0
        self.used = 0
        self.p = NULL
        return 0

    cdef inline int need(self, Py_ssize_t more) except -1:
        if self.used + more > self.room:
            self.grow(more)
        return 0

    cdef int grow(self, Py_ssize_t more) except -1:
        self.room = max(self.used + more, 2 * self.room, 4096)
        PyByteArray_Resize(self.data, self.room)
        self.p = <unsigned char*>PyByteArray_AS_STRING(self.data)
        return 0

    cdef bytearray take(self):
        cdef bytearray found = self.data
        PyByteArray_Resize(found, self.used)
        self.begin()
        return found


cdef class Column:
    """One column; validity is kept only from its first null on."""

    cdef Buffer bits
    cdef Py_ssize_t count
    cdef bint has_null

    def __cinit__(self):
        self.bits = Buffer()
        self.count = 0
        self.has_null = False

    cdef inline int valid(self) except -1:
        if self.has_null:
            self.mark(True)
        self.count += 1
        return 0

    cdef int null(self) except -1:
        cdef Py_ssize_t size
        if not self.has_null:
            self.has_null = True
            size = (self.count + 7) >> 3
            self.bits.need(size + 1)
            memset(self.bits.p, 0xFF, size)
            if self.count & 7:
                self.bits.p[size - 1] = (1 << (self.count & 7)) - 1
            self.bits.used = size
        self.mark(False)
        self.count += 1
        return 0

    cdef int mark(self, bint is_valid) except -1:
        cdef Py_ssize_t at = self.count >> 3
        if at >= self.bits.used:
            self.bits.need(1)
            self.bits.p[at] = 0
            self.bits.used = at + 1
        if is_valid:
            self.bits.p[at] |= 1 << (self.count & 7)
        return 0

    cdef object validity(self):
        found = self.bits.take() if self.has_null else None
        self.count = 0
        self.has_null = False
        return found


cdef class Ints(Column):
    """32-bit numbers."""

    cdef Buffer values

    def __cinit__(self):
        self.values = Buffer()

    cdef inline int put(self, long long value) except -1:
        self.values.need(4)
        (<int*>(self.values.p + self.values.used))[0] = <int>(<unsigned int>value)
        self.values.used += 4
        self.valid()
        return 0

    cdef int skip(self) except -1:
        self.values.need(4)
        (<int*>(self.values.p + self.values.used))[0] = 0
        self.values.used += 4
        self.null()
        return 0

    def put_value(self, value):
        if value is None:
            self.skip()
        else:
            self.put(value)

    def finish(self):
        return self.validity(), self.values.take()


cdef class Longs(Column):
    """64-bit numbers."""

    cdef Buffer values

    def __cinit__(self):
        self.values = Buffer()

    cdef inline int put(self, long long value) except -1:
        self.values.need(8)
        (<long long*>(self.values.p + self.values.used))[0] = value
        self.values.used += 8
        self.valid()
        return 0

    cdef int skip(self) except -1:
        self.values.need(8)
        (<long long*>(self.values.p + self.values.used))[0] = 0
        self.values.used += 8
        self.null()
        return 0

    cdef inline int put_ms(self, long long ms) except -1:
        """Put a time; one that nothing can show (or an unsigned one beyond 63 bits) is null."""
        if FIRST_TIME <= ms <= LAST_TIME:
            self.put(ms * 1000)
        else:
            self.skip()
        return 0

    def put_value(self, value):
        if value is None:
            self.skip()
        else:
            self.put(value)

    def finish(self):
        return self.validity(), self.values.take()


cdef class Texts(Column):
    """Texts or bytes."""

    cdef Buffer offsets
    cdef Buffer data

    def __cinit__(self):
        self.offsets = Buffer()
        self.data = Buffer()
        self.begin()

    cdef int begin(self) except -1:
        self.offsets.need(4)
        (<int*>self.offsets.p)[0] = 0
        self.offsets.used = 4
        return 0

    cdef inline int put(self, Bytes p, Py_ssize_t size) except -1:
        if size:
            self.data.need(size)
            memcpy(self.data.p + self.data.used, p, size)
            self.data.used += size
        self.end()
        self.valid()
        return 0

    cdef inline int end(self) except -1:
        if self.data.used > 0x7FFFFFFF:
            raise OverflowError("more than 2 GiB in one column of one batch; lower batchBytes")
        self.offsets.need(4)
        (<int*>(self.offsets.p + self.offsets.used))[0] = <int>self.data.used
        self.offsets.used += 4
        return 0

    cdef int put_bytes(self, bytes value) except -1:
        self.put(<Bytes>(<char*>value), len(value))
        return 0

    cdef int skip(self) except -1:
        self.end()
        self.null()
        return 0

    def put_value(self, value):
        if value is None:
            self.skip()
        elif isinstance(value, str):
            self.put_bytes(value.encode())
        else:
            self.put_bytes(value)

    cdef tuple parts(self):
        found = (self.offsets.take(), self.data.take())
        self.begin()
        return found

    def finish(self):
        return self.validity(), *self.parts()


cdef class Lists:
    """Lists of texts."""

    cdef Buffer offsets
    cdef Texts items

    def __cinit__(self):
        self.offsets = Buffer()
        self.items = Texts()
        self.begin()

    cdef int begin(self) except -1:
        self.offsets.need(4)
        (<int*>self.offsets.p)[0] = 0
        self.offsets.used = 4
        return 0

    cdef inline int end(self) except -1:
        self.offsets.need(4)
        (<int*>(self.offsets.p + self.offsets.used))[0] = <int>self.items.count
        self.offsets.used += 4
        return 0

    def put_value(self, value):
        for text in value:
            self.items.put_value(text)
        self.end()

    def finish(self):
        found = (self.offsets.take(), *self.items.parts())
        self.items.validity()
        self.begin()
        return found


cdef class Maps:
    """Maps of texts."""

    cdef Buffer offsets
    cdef Texts keys
    cdef Texts items

    def __cinit__(self):
        self.offsets = Buffer()
        self.keys = Texts()
        self.items = Texts()
        self.begin()

    cdef int begin(self) except -1:
        self.offsets.need(4)
        (<int*>self.offsets.p)[0] = 0
        self.offsets.used = 4
        return 0

    cdef inline int end(self) except -1:
        self.offsets.need(4)
        (<int*>(self.offsets.p + self.offsets.used))[0] = <int>self.keys.count
        self.offsets.used += 4
        return 0

    def put_value(self, value):
        for key, text in value.items():
            self.keys.put_value(key)
            self.items.put_value(text)
        self.end()

    def finish(self):
        found = (self.offsets.take(), *self.keys.parts(), *self.items.parts())
        self.keys.validity()
        self.items.validity()
        self.begin()
        return found


cdef class Host:
    """The text of the host that came last: few hosts write a log."""

    cdef bytes raw
    cdef bytes text
    cdef bint is_ipv6

    def __cinit__(self):
        self.raw = b""
        self.text = b""

    cdef bytes of(self, Bytes p, Py_ssize_t size):
        """Return the text of a stored host."""
        if len(self.raw) != size or memcmp(<char*>self.raw, p, size) != 0:
            self.raw = (<char*>p)[:size]
            self.text = hosts.to_text(self.raw).encode()
        return self.text

    cdef bint shows_ipv6(self, Bytes p, Py_ssize_t size) except -1:
        """Return whether a text is a host with an IPv6 address."""
        if size == 0 or p[0] != 91:
            return False
        if len(self.raw) != size or memcmp(<char*>self.raw, p, size) != 0:
            self.raw = (<char*>p)[:size]
            self.is_ipv6 = hosts.is_ipv6(self.raw.decode())
        return self.is_ipv6


# -- the pairs of one record ----------------------------------------------------------------------


cdef struct Pair:
    Bytes name
    Py_ssize_t name_size
    Bytes value
    Py_ssize_t value_size


cdef inline bint named(Pair* pair, const char* word, Py_ssize_t size) noexcept:
    return pair.name_size == size and memcmp(pair.name, word, size) == 0


cdef bint has_twins(Pair* pairs, int count) noexcept:
    """Return whether a name is there twice; quick when they are sorted, as a writer leaves them."""
    cdef int i, j, order
    cdef Py_ssize_t size
    cdef bint is_sorted = True
    for i in range(1, count):
        size = min(pairs[i - 1].name_size, pairs[i].name_size)
        order = memcmp(pairs[i - 1].name, pairs[i].name, size)
        if order > 0 or (order == 0 and pairs[i - 1].name_size >= pairs[i].name_size):
            is_sorted = False
            break
    if is_sorted:
        return False
    for i in range(1, count):
        for j in range(i):
            if pairs[i].name_size == pairs[j].name_size and memcmp(
                pairs[i].name, pairs[j].name, pairs[i].name_size
            ) == 0:
                return True
    return False


# -- records ------------------------------------------------------------------------------------

_MAKERS = {"int": Ints, "long": Longs, "time": Longs, "text": Texts, "binary": Texts, "texts": Lists, "map": Maps}


cdef class Columns:
    """The wanted columns of records, growing row by row."""

    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t bytes
    cdef readonly Py_ssize_t odd
    cdef int code
    cdef object fmt
    cdef dict made
    cdef list order
    cdef Texts topic
    cdef Ints queue_id
    cdef Longs queue_offset
    cdef Longs physical_offset
    cdef Texts message_id
    cdef Texts keys
    cdef Texts tags
    cdef Texts body
    cdef Maps properties
    cdef Longs born_timestamp
    cdef Longs store_timestamp
    cdef Longs deliver_timestamp
    cdef Ints reconsume_times
    cdef Ints sys_flag
    cdef Ints size
    cdef Ints body_crc
    cdef Lists all_tags
    cdef Lists all_keys
    cdef Texts type
    cdef Ints priority
    cdef Ints reliability
    cdef Texts transaction_id
    cdef Texts status
    cdef Texts sharding_key
    cdef Ints flag
    cdef Texts born_host
    cdef Texts store_host
    cdef Host born
    cdef Host stored

    def __init__(self, code, names):
        from litemq.format.columns import KINDS  # which imports this module
        from litemq.format.record import FORMATS

        self.rows = self.bytes = self.odd = 0
        self.code = code
        self.fmt = next(known for known in FORMATS.values() if known.code == code)
        self.made = {name: _MAKERS[KINDS[name]]() for name in names}
        self.order = [(index, self.made[name]) for index, name in enumerate(KINDS) if name in self.made]
        self.topic = self.made.get("topic")
        self.queue_id = self.made.get("queue_id")
        self.queue_offset = self.made.get("queue_offset")
        self.physical_offset = self.made.get("physical_offset")
        self.message_id = self.made.get("message_id")
        self.keys = self.made.get("keys")
        self.tags = self.made.get("tags")
        self.body = self.made.get("body")
        self.properties = self.made.get("properties")
        self.born_timestamp = self.made.get("born_timestamp")
        self.store_timestamp = self.made.get("store_timestamp")
        self.deliver_timestamp = self.made.get("deliver_timestamp")
        self.reconsume_times = self.made.get("reconsume_times")
        self.sys_flag = self.made.get("sys_flag")
        self.size = self.made.get("size")
        self.body_crc = self.made.get("body_crc")
        self.all_tags = self.made.get("all_tags")
        self.all_keys = self.made.get("all_keys")
        self.type = self.made.get("type")
        self.priority = self.made.get("priority")
        self.reliability = self.made.get("reliability")
        self.transaction_id = self.made.get("transaction_id")
        self.status = self.made.get("status")
        self.sharding_key = self.made.get("sharding_key")
        self.flag = self.made.get("flag")
        self.born_host = self.made.get("born_host")
        self.store_host = self.made.get("store_host")
        self.born = Host()
        self.stored = Host()

    def add(
        self,
        const unsigned char[::1] view,
        const long long[::1] table,
        const long long[::1] picked,
        Py_ssize_t start,
        Py_ssize_t count,
        Py_ssize_t max_rows,
        Py_ssize_t max_bytes,
    ):
        """Take rows ``picked[start:count]``, up to the limits of a batch; return where it stopped.

        A row that is larger than ``max_bytes`` by itself is taken as the last one of its batch.
        """
        cdef const long long* row
        cdef bint is_done
        from litemq.format.record import decode_row

        while start < count and self.rows < max_rows and (self.rows == 0 or self.bytes < max_bytes):
            row = &table[0] + picked[start] * WIDTH
            is_done = False
            if not row[SYS_FLAG] & 1:
                is_done = self.add_litemq(&view[0], row) if self.code == 0 else self.add_text(&view[0], row)
            if is_done:
                self.rows += 1
                self.bytes += row[SIZE]
            else:
                self.add_record(decode_row(self.fmt, memoryview(view), _as_array(table), picked[start], ""))
            start += 1
        return start

    def add_record(self, record):
        """Take one decoded record; an unfolded body counts with what it came to."""
        from litemq.format.columns import values_of

        values = values_of(record)
        self.odd += 1
        self.rows += 1
        self.bytes += record.size - len(record.stored_body) + len(record.body)
        for index, column in self.order:
            column.put_value(values[index])

    def finish(self):
        """Return the buffers of all columns, and begin anew."""
        found = {name: column.finish() for name, column in self.made.items()}
        self.rows = self.bytes = 0
        return found

    cdef int put_common(self, Bytes p, const long long* row) except -1:
        """Put what every row of the table says."""
        if self.topic is not None:
            self.topic.put(p + row[TOPIC_AT], row[TOPIC_SIZE])
        if self.queue_id is not None:
            self.queue_id.put(row[QUEUE_ID])
        if self.queue_offset is not None:
            self.queue_offset.put(row[QUEUE_OFFSET])
        if self.physical_offset is not None:
            self.physical_offset.put(row[POSITION])
        if self.body is not None:
            self.body.put(p + row[BODY_AT], row[BODY_SIZE])
        if self.size is not None:
            self.size.put(row[SIZE])
        return 0

    cdef bint add_litemq(self, Bytes p, const long long* row) except -1:
        """Put a ``litemq`` record; False when it is odd, and then nothing was put."""
        cdef Pair[64] pairs
        cdef Pair* pair
        cdef Py_ssize_t c = row[PROPERTIES_AT]
        cdef Py_ssize_t rest = row[REST_AT]
        cdef Py_ssize_t sharding, born, host, store, end
        cdef long long count = u32(p, c - 4)
        cdef int used = 0
        cdef int i, flag
        cdef unsigned char status
        if count > MOST_PAIRS:
            return False
        while count > 0:
            pair = &pairs[used]
            pair.name_size = u16(p, c)
            pair.name = p + c + 2
            c += 2 + pair.name_size
            pair.value_size = u16(p, c)
            pair.value = p + c + 2
            c += 2 + pair.value_size
            count -= 1
            if pair.name_size > 2 and pair.name[0] == 95 and pair.name[1] == 95:
                if named(pair, "__CRC32C", 8) or named(pair, "__CRC32#", 8):
                    continue
                if named(pair, "__FLAG", 6) or named(pair, "__SYS_FLAG", 10) or named(pair, "__PREPARED_OFFSET", 17):
                    return False
            used += 1
        if has_twins(pairs, used):
            return False
        sharding = rest + 14 + u16(p, rest + 11)
        status = p[sharding - 1]
        born = sharding + 2 + u16(p, sharding)
        host = born + 9
        store = host + 2 + u16(p, host)
        end = store + 2 + u16(p, store)
        self.put_common(p, row)
        if self.message_id is not None:
            self.message_id.put(p + row[ID_AT], row[ID_SIZE])
        if self.tags is not None or self.all_tags is not None:
            c = row[TOPIC_AT] + row[TOPIC_SIZE]
            self.put_texts(p, c + 4, u32(p, c), self.tags, self.all_tags)
        if self.keys is not None or self.all_keys is not None:
            self.put_texts(p, row[KEYS_AT], row[KEYS_COUNT], self.keys, self.all_keys)
        self.put_pairs(pairs, used)
        if self.born_timestamp is not None:
            self.born_timestamp.put_ms(unsigned_ms(i64(p, born + 1)))
        if self.store_timestamp is not None:
            self.store_timestamp.put_ms(unsigned_ms(i64(p, end + 24)))
        if self.deliver_timestamp is not None:
            if i64(p, rest + 3):
                self.deliver_timestamp.put_ms(unsigned_ms(i64(p, rest + 3)))
            else:
                self.deliver_timestamp.skip()
        if self.reconsume_times is not None:
            self.reconsume_times.put(u32(p, end + 48))
        if self.sys_flag is not None:
            flag = status << 2
            if self.born.shows_ipv6(p + host + 2, u16(p, host)):
                flag |= 0x10
            if self.stored.shows_ipv6(p + store + 2, u16(p, store)):
                flag |= 0x20
            self.sys_flag.put(flag)
        if self.body_crc is not None:
            self.body_crc.skip()
        if self.type is not None:
            self.type.put_bytes(_TYPES[p[rest]])
        if self.priority is not None:
            self.priority.put(p[rest + 1])
        if self.reliability is not None:
            self.reliability.put(p[rest + 2])
        if self.transaction_id is not None:
            self.transaction_id.put(p + rest + 13, u16(p, rest + 11))
        if self.status is not None:
            self.status.put_bytes(_STATUSES[status])
        if self.sharding_key is not None:
            self.sharding_key.put(p + sharding + 2, u16(p, sharding))
        if self.flag is not None:
            self.flag.put(0)
        if self.born_host is not None:
            self.born_host.put(p + host + 2, u16(p, host))
        if self.store_host is not None:
            self.store_host.put(p + store + 2, u16(p, store))
        return True

    cdef int put_texts(self, Bytes p, Py_ssize_t at, long long count, Texts first, Lists every) except -1:
        cdef long long i
        if first is not None:
            if count:
                first.put(p + at + 2, u16(p, at))
            else:
                first.skip()
        if every is not None:
            for i in range(count):
                every.items.put(p + at + 2, u16(p, at))
                at += 2 + u16(p, at)
            every.end()
        return 0

    cdef int put_pairs(self, Pair* pairs, int count) except -1:
        cdef int i
        if self.properties is None:
            return 0
        for i in range(count):
            self.properties.keys.put(pairs[i].name, pairs[i].name_size)
            self.properties.items.put(pairs[i].value, pairs[i].value_size)
        self.properties.end()
        return 0

    cdef bint add_text(self, Bytes p, const long long* row) except -1:
        """Put a record whose properties are RocketMQ's text; False when it is odd, and then nothing was put."""
        cdef Pair[64] pairs
        cdef Pair[64] plain
        cdef Pair tag, key, unique, sharding, transaction
        cdef Pair* pair
        cdef Bytes at = p + row[PROPERTIES_AT]
        cdef Bytes end = at + row[PROPERTIES_SIZE]
        cdef Bytes stop
        cdef Bytes split
        cdef Bytes head
        cdef int used = 0
        cdef int shown = 0
        cdef int i
        cdef int kind = 0  # by the names of types: 1 delay, 2 transaction, 4 order
        cdef bint has_delay = False
        cdef bint is_half = False
        cdef long long due = 0
        cdef long long flags
        cdef Py_ssize_t born, store, rest
        memset(&tag, 0, sizeof(Pair))
        memset(&key, 0, sizeof(Pair))
        memset(&unique, 0, sizeof(Pair))
        memset(&sharding, 0, sizeof(Pair))
        memset(&transaction, 0, sizeof(Pair))
        if self.code == 1 and not is_utf8(p, row[PROPERTIES_AT], row[PROPERTIES_AT] + row[PROPERTIES_SIZE]):
            return False
        while at < end:
            stop = at
            split = NULL
            while stop < end and stop[0] != 2:
                if stop[0] == 1 and split == NULL:
                    split = stop
                stop += 1
            if split != NULL and split > at and split + 1 < stop:
                if used == MOST_PAIRS:
                    return False
                pair = &pairs[used]
                pair.name = at
                pair.name_size = split - at
                pair.value = split + 1
                pair.value_size = stop - split - 1
                used += 1
            at = stop + 1
        if has_twins(pairs, used):
            return False
        for i in range(used):
            pair = &pairs[i]
            if named(pair, "TAGS", 4):
                tag = pair[0]
            elif named(pair, "KEYS", 4):
                key = pair[0]
            elif named(pair, "UNIQ_KEY", 8):
                unique = pair[0]
            elif named(pair, "TIMER_DELIVER_MS", 16):
                has_delay = True
                due = digits(pair.value, pair.value_size)
                if due < 0:
                    return False
            elif pair.name_size > 2 and pair.name[0] == 95 and pair.name[1] == 95:
                if named(pair, "__SHARDINGKEY", 13):
                    sharding = pair[0]
                elif named(pair, "__transactionId__", 17):
                    transaction = pair[0]
                elif named(pair, "__CRC32#", 8) or named(pair, "__CRC32C", 8):
                    pass
                elif self.code == 1 and not named(pair, "__ORIGIN", 8):
                    return False
                else:
                    plain[shown] = pair[0]
                    shown += 1
            else:
                if named(pair, "TRAN_MSG", 8):
                    is_half = pair.value_size == 4 and memcmp(pair.value, b"true", 4) == 0
                elif named(pair, "DELAY", 5) or named(pair, "TIMER_DELAY_SEC", 15) or named(pair, "TIMER_DELAY_MS", 14):
                    has_delay = True
                plain[shown] = pair[0]
                shown += 1
        if self.code == 3 and unique.name != NULL:
            if unique.value_size != row[ID_SIZE] or memcmp(unique.value, p + row[ID_AT], row[ID_SIZE]) != 0:
                return False
        if is_half:
            kind = 2
        elif has_delay:
            kind = 1
        elif sharding.name != NULL:
            kind = 4
        self.put_common(p, row)
        if self.message_id is not None:
            if self.code == 3:
                self.message_id.put(p + row[ID_AT], row[ID_SIZE])
            else:
                put_pair(self.message_id, &unique)
        if self.tags is not None:
            put_pair(self.tags, &tag)
        if self.all_tags is not None:
            if tag.name != NULL:
                self.all_tags.items.put(tag.value, tag.value_size)
            self.all_tags.end()
        if self.keys is not None or self.all_keys is not None:
            self.put_keys(&key)
        self.put_pairs(plain, shown)
        if self.deliver_timestamp is not None:
            if due:
                self.deliver_timestamp.put_ms(due)
            else:
                self.deliver_timestamp.skip()
        if self.type is not None:
            self.type.put_bytes(_TYPES[kind])
        if self.priority is not None:
            self.priority.skip()
        if self.reliability is not None:
            self.reliability.skip()
        if self.transaction_id is not None:
            put_pair(self.transaction_id, &transaction)
        if self.sharding_key is not None:
            put_pair(self.sharding_key, &sharding)
        if self.code == 3:
            if self.born_timestamp is not None:
                self.born_timestamp.put_ms(i64(p, row[REST_AT]))
            self.skip_header()
            return True
        flags = row[SYS_FLAG]
        if self.status is not None:
            self.status.put_bytes(_STATUSES[(flags >> 2) & 3])
        if self.sys_flag is not None:
            self.sys_flag.put(flags)
        if self.store_timestamp is not None:
            self.store_timestamp.put_ms(row[STORE_TIME])
        if self.code == 2:
            head = p + row[TOPIC_AT] - 57
            if self.reconsume_times is not None:
                self.reconsume_times.skip()
            if self.born_host is not None:
                self.born_host.skip()
            if self.store_host is not None:
                self.store_host.skip()
        else:
            born = 20 if flags & 0x10 else 8
            store = 20 if flags & 0x20 else 8
            rest = row[REST_AT]
            head = p + rest - 12 - store - 8 - born - 48
            if self.reconsume_times is not None:
                self.reconsume_times.put(i32(p, rest - 12))
            if self.born_host is not None:
                self.born_host.put_bytes(self.born.of(p + rest - 20 - store - born, born))
            if self.store_host is not None:
                self.store_host.put_bytes(self.stored.of(p + rest - 12 - store, store))
        if self.born_timestamp is not None:
            self.born_timestamp.put_ms(i64(head, 40))
        if self.body_crc is not None:
            self.body_crc.put(u32(head, 8))
        if self.flag is not None:
            self.flag.put(i32(head, 16))
        return True

    cdef int put_keys(self, Pair* pair) except -1:
        """Put what stands between blanks."""
        cdef Bytes at = pair.value
        cdef Bytes end = pair.value + pair.value_size
        cdef Bytes start
        cdef bint is_first = True
        if pair.name != NULL:
            while at < end:
                start = at
                while at < end and at[0] != 32:
                    at += 1
                if at > start:
                    if is_first and self.keys is not None:
                        self.keys.put(start, at - start)
                    is_first = False
                    if self.all_keys is not None:
                        self.all_keys.items.put(start, at - start)
                at += 1
        if is_first and self.keys is not None:
            self.keys.skip()
        if self.all_keys is not None:
            self.all_keys.end()
        return 0

    cdef int skip_header(self) except -1:
        """Put nulls where a ``tmq`` record has no field."""
        if self.store_timestamp is not None:
            self.store_timestamp.skip()
        if self.reconsume_times is not None:
            self.reconsume_times.skip()
        if self.sys_flag is not None:
            self.sys_flag.skip()
        if self.body_crc is not None:
            self.body_crc.skip()
        if self.status is not None:
            self.status.skip()
        if self.flag is not None:
            self.flag.skip()
        if self.born_host is not None:
            self.born_host.skip()
        if self.store_host is not None:
            self.store_host.skip()
        return 0


cdef inline int put_pair(Texts column, Pair* pair) except -1:
    if pair.name == NULL:
        column.skip()
    else:
        column.put(pair.value, pair.value_size)
    return 0


cdef inline long long unsigned_ms(long long ms) noexcept:
    """Return a time of a field without a sign; what is beyond 63 bits is as unshowable as the last one."""
    return ms if ms >= 0 else FAR


cdef long long digits(Bytes p, Py_ssize_t size) noexcept:
    """Return a number of 1 to 18 digits, else -1."""
    cdef long long value = 0
    cdef Py_ssize_t i
    if size < 1 or size > 18:
        return -1
    for i in range(size):
        if p[i] < 48 or p[i] > 57:
            return -1
        value = value * 10 + (p[i] - 48)
    return value


cdef object _as_array(const long long[::1] table):
    """Return what ``decode_row`` slices: the array behind the table."""
    return table.base if hasattr(table, "base") else memoryview(table)


# -- which rows -----------------------------------------------------------------------------------


def pick(
    const unsigned char[::1] view,
    const long long[::1] table,
    Py_ssize_t first,
    Py_ssize_t count,
    long long end,
    choose,
    dict cache,
    bint placed_only,
    long long from_time,
    long long to_time,
    long long[::1] picked,
):
    """Note the rows that are wanted in ``picked`` and return how many.

    A row counts when it lies before ``end``, is stored in ``from_time`` to ``to_time`` (the end is not part of it),
    and when ``choose(topic, queue id)`` gives (lowest offset, offset behind the last, lowest position) that it fits.
    With ``placed_only`` prepared and rolled-back records do not count.
    """
    cdef Py_ssize_t found = 0
    cdef Py_ssize_t row
    cdef const long long* at
    cdef bint is_placed
    cdef bint asks = choose is not None
    cdef Known known
    for row in range(first, count):
        at = &table[0] + row * WIDTH
        if at[POSITION] >= end:
            break
        if at[STORE_TIME] < from_time or at[STORE_TIME] >= to_time:
            continue
        is_placed = at[STATUS] != 1 and at[STATUS] != 3
        if placed_only and not is_placed:
            continue
        if asks:
            known = find(cache, &view[0] + at[TOPIC_AT], at[TOPIC_SIZE], at[QUEUE_ID], choose)
            if not known.is_wanted or at[POSITION] < known.from_position:
                continue
            if is_placed and (at[QUEUE_OFFSET] < known.low or at[QUEUE_OFFSET] >= known.high):
                continue
        picked[found] = row
        found += 1
    return found


cdef class Known:
    """What was chosen for one queue."""

    cdef bytes topic
    cdef long long queue_id
    cdef bint is_wanted
    cdef long long low
    cdef long long high
    cdef long long from_position


cdef Known find(dict cache, Bytes p, Py_ssize_t size, long long queue_id, choose):
    """Return what is known of a queue; ``cache`` leads from a hash to those with that hash."""
    cdef unsigned long long h = FNV_START
    cdef Py_ssize_t i
    cdef Known known
    cdef list same
    for i in range(size):
        h = (h ^ p[i]) * FNV_STEP
    h = (h ^ <unsigned long long>queue_id) * FNV_STEP
    same = cache.get(h & 0x3FFF)
    if same is None:
        same = cache[h & 0x3FFF] = []
    for known in same:
        if known.queue_id == queue_id and len(known.topic) == size and memcmp(<char*>known.topic, p, size) == 0:
            return known
    known = Known()
    known.topic = (<char*>p)[:size]
    known.queue_id = queue_id
    bounds = choose(known.topic, queue_id)
    known.is_wanted = bounds is not None
    if bounds is not None:
        known.low, known.high, known.from_position = bounds
    same.append(known)
    return known
