cdef class QueueTail:
    cdef public str topic
    cdef public long long queue_id
    cdef public long long next_offset
    cdef public long long opened_at
    cdef public long long staged
    cdef public long long last_position
    cdef public unsigned int key_hash
    cdef public bytearray tail
    cdef public Py_ssize_t used
    cdef public Py_ssize_t entry_size
    cdef public object files
    cdef public list watch
    cdef public bint is_gone
    cdef int add(self, long long position, long long size, long long tag, long long time, list dirty, list full) except? -1


cdef class IndexTail:
    cdef public bytearray slots
    cdef public bytearray dirty
    cdef public long long slot_count
    cdef public long long entry_limit
    cdef public long long count
    cdef public long long used_slots
    cdef public long long begin_time
    cdef public long long end_time
    cdef public long long begin_position
    cdef public long long end_position
    cdef public bytearray tail
    cdef public Py_ssize_t used
    cdef public long long keys_done
    cdef int add(self, unsigned int h, long long position, long long time) except? -1


cdef class IndexEnd:
    cdef public IndexTail tail
