cdef extern from "_crc32c.h" nogil:
    unsigned int litemq_crc32c(unsigned int crc, const unsigned char* p, size_t n)
    void litemq_crc32c_init()
