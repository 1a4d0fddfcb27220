from litemq.format._spans_cy cimport Spans


cdef class SpanWriter:
    cdef readonly int code
    cdef readonly bytes store_host
    cdef readonly bytes store_address
    cdef bytes own_text
    cdef Py_ssize_t own_size
    cdef bytearray extra
    cdef Py_ssize_t extra_count
    cdef Py_ssize_t extra_cells[24]
    cdef Py_ssize_t flag_cell
    cdef Py_ssize_t sys_flag_cell
    cdef Py_ssize_t checksum_cell
    cdef Py_ssize_t checksum_at
    cdef list exact
    cdef list prefixes
    cdef Py_ssize_t count
    cdef Py_ssize_t cells[192]
    cdef Py_ssize_t keys_at
    cdef Py_ssize_t keys_size
    cdef Py_ssize_t keys_count
    cdef Py_ssize_t id_at
    cdef Py_ssize_t id_size
    cdef Py_ssize_t tag_at
    cdef Py_ssize_t tag_size
    cdef Py_ssize_t sharding_at
    cdef Py_ssize_t sharding_size
    cdef Py_ssize_t text_size
    cdef Py_ssize_t size
    cdef long long sys_flag
    cdef bint take_pair(
        self, unsigned char* p, Py_ssize_t at, Py_ssize_t name_size, Py_ssize_t value, Py_ssize_t value_size) except? -1
    cdef bint is_special(self, unsigned char* p, Py_ssize_t at, Py_ssize_t size) except? -1
    cdef bint read_properties(self, unsigned char* p, Py_ssize_t at, Py_ssize_t end) except? -1
    cdef Py_ssize_t plan(self, Spans spans, Py_ssize_t o) except? -1
    cdef int set_number(self, Py_ssize_t cell, long long number) except? -1
    cdef int plan_litemq(self, Spans spans, unsigned char* p) except? -1
    cdef int put(
        self, unsigned char* p, Py_ssize_t at, Spans spans, Py_ssize_t s, long long position, long long queue_offset,
        long long store_time, long long* rows, Py_ssize_t o) except? -1
    cdef int put_rocketmq(
        self, unsigned char* p, Py_ssize_t at, Spans spans, Py_ssize_t s, long long position, long long queue_offset,
        long long store_time, long long* rows, Py_ssize_t o) except? -1
    cdef int put_litemq(
        self, unsigned char* p, Py_ssize_t at, Spans spans, Py_ssize_t s, long long position, long long queue_offset,
        long long store_time, long long* rows, Py_ssize_t o) except? -1
    cdef Py_ssize_t put_properties(self, unsigned char* p, Py_ssize_t at, unsigned char* text) except? -1
