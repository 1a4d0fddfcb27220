from litemq.store._slice_cy cimport Pulled, Slicer
from litemq.store._tails_cy cimport QueueTail


cdef class TailPuller:
    cdef object log
    cdef object queues
    cdef object tables
    cdef object readable_end
    cdef bint sees_all
    cdef public Slicer slicer
    cdef readonly long long low
    cdef readonly long long high
    cpdef Pulled pull(
        self, QueueTail tail, long long offset, tag_hashes, long long max_count, long long max_bytes,
        long long max_scan, Py_ssize_t head_room, bint as_rocketmq)
    cdef int find_bounds(self, QueueTail tail) except? -1
    cdef bint collect(self, QueueTail tail) except? -1
