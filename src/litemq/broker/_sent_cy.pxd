from litemq.format._spans_cy cimport Spans


cdef class SentCell:
    cdef readonly bytes topic
    cdef readonly bytes group
    cdef public long long count


cdef class SentCounts:
    cdef dict cells
    cdef list past
    cdef long long hour
    cdef long long hour_end
    cdef SentCell last
    cpdef int note_rows(self, Spans spans, Py_ssize_t first, Py_ssize_t done) except? -1
    cdef bint is_last(self, Spans spans, Py_ssize_t s) noexcept
    cdef int find(self, Spans spans, Py_ssize_t s) except? -1
    cdef int choose(self, bytes topic, bytes group) except? -1
    cdef int turn(self, long long store_time) except? -1
