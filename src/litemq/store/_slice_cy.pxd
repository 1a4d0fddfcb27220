cimport cython


@cython.final
cdef class Pulled:
    cdef public bytearray buffer
    cdef public Py_ssize_t start
    cdef public Py_ssize_t size
    cdef public Py_ssize_t count
    cdef public long long next_offset
    cdef public long long min_offset
    cdef public long long max_offset
    cdef public object status
    cdef public bint is_rocketmq
    cdef int keep_some(self, bint by_tag, list wanted, frozenset tags) except? -1


@cython.final
cdef class Slicer:
    cdef bint is_litemq
    cdef object odd
    cdef bint transcodes
    cdef bint strips
    cdef Py_ssize_t stride
    cdef Py_ssize_t head_room
    cdef Py_ssize_t used
    cdef public Py_ssize_t count
    cdef public long long offset
    cdef long long end
    cdef Py_ssize_t max_count
    cdef Py_ssize_t max_bytes
    cdef public long long scan_end
    cdef bint is_full
    cdef bint takes_all
    cdef Py_ssize_t hash_count
    cdef long long[::1] hashes
    cdef Py_ssize_t chosen
    cdef Py_ssize_t chosen_bytes
    cdef long long[::1] wanted
    cdef long long[::1] rows
    cdef bytearray buffer
    cdef bytearray scratch
    cdef public long long log_end
    cdef dict blocks
    cdef bint reads_blocks
    cdef bytearray window
    cdef long long window_start
    cdef long long window_end
    cdef bytearray source
    cdef long long source_start
    cpdef int begin(
        self, long long offset, long long end, tag_hashes, long long max_count, long long max_bytes,
        long long max_scan, Py_ssize_t head_room, bint as_rocketmq) except? -1
    cpdef Py_ssize_t missing(self) except? -1
    cpdef int choose(self, bytearray entries, Py_ssize_t place, Py_ssize_t count) except? -1
    cpdef int fetch(self, find, bint nowait) except? -1
    cpdef Pulled finish(self, status, long long low, long long high)
    cdef Py_ssize_t run_end(self, Py_ssize_t i, long long segment_end) except? -1
    cdef int find_block(
        self, Py_ssize_t i, Py_ssize_t last, file, long long start, long long segment_end, bint nowait) except? -1
    cdef Py_ssize_t read(
        self, file, bytearray target, Py_ssize_t at, Py_ssize_t size, long long place, bint nowait) except? -2
    cdef int read_run(self, Py_ssize_t i, Py_ssize_t last, file, long long start, bint nowait) except? -1
    cdef Py_ssize_t put(self, Py_ssize_t at, Py_ssize_t size, long long position) except? -1
    cdef bytearray reserve(self, Py_ssize_t size)
