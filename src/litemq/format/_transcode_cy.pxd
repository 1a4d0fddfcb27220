cdef Py_ssize_t properties_place(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept
cdef Py_ssize_t strip_rocketmq(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t size, unsigned char* out, Py_ssize_t o) except? -1
cdef Py_ssize_t put_as_rocketmq(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t size, long long position, long long* rows,
    unsigned char* out, Py_ssize_t o) except? -3
