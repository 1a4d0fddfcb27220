from litemq.format._encode_spans_cy cimport SpanWriter
from litemq.format._spans_cy cimport Spans
from litemq.store._append_cy cimport Batch, LogEnd
from litemq.store._tails_cy cimport IndexEnd


cdef class PlainTopic:
    cdef readonly str topic
    cdef readonly bytes name
    cdef readonly Py_ssize_t queue_count
    cdef public list tails


cdef class RowAppender:
    cdef dict plain
    cdef Batch batch
    cdef readonly LogEnd log
    cdef IndexEnd index
    cdef SpanWriter writer
    cdef object now_ms
    cdef object finish
    cdef object failed
    cdef readonly PlainTopic last
    cdef long long max_record
    cdef long long max_body
    cdef readonly int why
    cpdef Py_ssize_t append_ordinary(self, Spans spans, Py_ssize_t first) except? -1
    cpdef int settle(self) except? -1
    cpdef int feed(self) except? -1
    cpdef int tidy(self) except? -1
    cpdef Py_ssize_t append(self, Spans spans, Py_ssize_t first) except? -1
    cdef int find_topic(self, Spans spans, Py_ssize_t s) except? -1
    cdef Py_ssize_t stage(
        self, Spans spans, Py_ssize_t first, long long position, long long room, long long store_time) except? -1
    cdef int stage_one(
        self, Spans spans, Py_ssize_t s, long long position, long long room, long long store_time) except? -1
    cdef int unstage(self, Py_ssize_t count, Py_ssize_t size) except? -1
