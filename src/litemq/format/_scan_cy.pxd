cdef int note_rocketmq_properties(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long* rows, Py_ssize_t o) except? -1
cdef int parse_litemq(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long position, long long* rows, Py_ssize_t o,
    long long checked_from) except? -1
