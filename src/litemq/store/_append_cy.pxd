cimport cython

from litemq.format._encode_cy cimport Plan
from litemq.store._tails_cy cimport IndexTail


cdef class LogEnd:
    cdef public long long end
    cdef public long long segment_start
    cdef public long long segment_end
    cdef public object write_at
    cdef public long long writes
    cdef public long long messages
    cdef public long long last_time
    cdef public long long look_at


@cython.final
cdef class Batch:
    cdef bint busy
    cdef int code
    cdef str store_host
    cdef bytes store_address
    cdef long long max_record
    cdef long long max_body
    cdef public bytearray out
    cdef object table
    cdef long long[::1] rows
    cdef public list tails
    cdef public list dirty
    cdef public list full
    cdef public Py_ssize_t count
    cdef public Py_ssize_t size
    cdef public Py_ssize_t fed
    cdef public bint needs_care
    cdef Plan plan
    cdef Py_ssize_t row_limit
    cpdef int claim(self) except? -1
    cpdef int stage(
        self, list messages, Py_ssize_t first, dict queues, long long position, long long room, long long store_time
    ) except? -1
    cpdef Py_ssize_t dispatch(self, IndexTail index, Py_ssize_t first) except? -1
    cpdef list results(self)
    cpdef int clear(self) except? -1
    cdef object staged(self)
    cdef int feed(self, IndexTail index) except? -1
    cdef int make_room(self, Py_ssize_t size) except? -1
