cdef extern from "_crc32.h" nogil:
    unsigned int litemq_crc32(unsigned int crc, const unsigned char* p, size_t n)
    unsigned int litemq_crc32_join(unsigned int first, unsigned int second, size_t n)
    void litemq_crc32_init()
