ctypedef const unsigned char* Bytes

cdef unsigned int hash_utf8(Bytes p, Py_ssize_t at, Py_ssize_t end, unsigned int h) noexcept
cdef bint is_utf8(Bytes p, Py_ssize_t at, Py_ssize_t end) noexcept
cdef unsigned int crc32c_of(Bytes p, Py_ssize_t at, Py_ssize_t end, unsigned int crc) except? 0
cdef unsigned int crc32_around(
    Bytes p, Py_ssize_t at, Py_ssize_t body, Py_ssize_t behind, Py_ssize_t end, unsigned int body_crc) except? 0
cdef unsigned int crc32_of(Bytes p, Py_ssize_t at, Py_ssize_t end) except? 0
