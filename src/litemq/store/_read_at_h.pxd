cdef extern from "_read_at.h" nogil:
    Py_ssize_t litemq_read_at(int fd, unsigned char* p, size_t size, long long position, int nowait)
