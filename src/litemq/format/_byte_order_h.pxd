ctypedef const unsigned char* Bytes

cdef extern from "_byte_order.h" nogil:
    void put16 "litemq_put16"(unsigned char* p, Py_ssize_t at, long long value)
    void put32 "litemq_put32"(unsigned char* p, Py_ssize_t at, long long value)
    void put64 "litemq_put64"(unsigned char* p, Py_ssize_t at, long long value)
    long long u16 "litemq_u16"(Bytes p, Py_ssize_t at)
    long long u32 "litemq_u32"(Bytes p, Py_ssize_t at)
    long long i32 "litemq_i32"(Bytes p, Py_ssize_t at)
    long long i64 "litemq_i64"(Bytes p, Py_ssize_t at)
    void copy "litemq_copy"(unsigned char* p, Py_ssize_t at, Bytes other, Py_ssize_t start, Py_ssize_t size)
    void move "litemq_move"(unsigned char* p, Py_ssize_t at, Py_ssize_t start, Py_ssize_t size)
    bint same "litemq_same"(Bytes p, Py_ssize_t at, Bytes other, Py_ssize_t start, Py_ssize_t size)
    bint is_before "litemq_is_before"(
        Bytes p, Py_ssize_t at, Py_ssize_t size, Bytes other, Py_ssize_t start, Py_ssize_t more)
    Py_ssize_t find "litemq_find"(Bytes p, Py_ssize_t at, Py_ssize_t end, int byte)
    Py_ssize_t find_special "litemq_find_special"(Bytes p, Py_ssize_t at, Py_ssize_t end)
    Py_ssize_t put_decimal "litemq_put_decimal"(unsigned char* p, Py_ssize_t at, long long value)
    Py_ssize_t put_hex "litemq_put_hex"(
        unsigned char* p, Py_ssize_t at, Bytes other, Py_ssize_t start, Py_ssize_t size)
