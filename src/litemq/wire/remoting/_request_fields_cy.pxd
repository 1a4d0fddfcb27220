from litemq.format._spans_cy cimport Spans

cdef int family_of(long long code) noexcept
cdef int field_of(unsigned char *p, Py_ssize_t at, Py_ssize_t size, int family) except? -2
cdef bint is_number(
    unsigned char *q, Py_ssize_t at, Py_ssize_t size, long long least, long long most, long long *rows,
    Py_ssize_t cell) noexcept
cdef bint take_field(
    Spans spans, int field, unsigned char *q, Py_ssize_t at, Py_ssize_t size, int form, int family, long long *rows,
    Py_ssize_t o) except? -1
cdef int kind_of(Spans spans, int family, long long *rows, Py_ssize_t o) noexcept
