/* Read bytes at a place of a file, all that are there; without waiting for the disk where the system can do that. */
#ifndef LITEMQ_READ_AT_H
#define LITEMQ_READ_AT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define LITEMQ_WOULD_BLOCK (-1)

/* Return how many bytes came, fewer than size only at the file's end; LITEMQ_WOULD_BLOCK when they are not in memory and
   nowait asks not to wait for them; -1 - errno when the disk does not give them. */
static inline ssize_t litemq_read_at(int fd, unsigned char *p, size_t size, long long position, int nowait) {
    size_t have = 0;
    while (have < size) {
        ssize_t count;
#if defined(RWF_NOWAIT)
        if (nowait) {
            struct iovec part = {p + have, size - have};
            count = preadv2(fd, &part, 1, (off_t)(position + (long long)have), RWF_NOWAIT);
            if (count < 0 && (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS)) {
                nowait = 0; /* a file system or a kernel that cannot tell */
                continue;
            }
        } else
#endif
            count = pread(fd, p + have, size - have, (off_t)(position + (long long)have));
        if (count < 0) {
            if (errno == EINTR) continue;
            if (nowait && errno == EAGAIN) return LITEMQ_WOULD_BLOCK;
            return -1 - errno;
        }
        if (count == 0) break;
        have += (size_t)count;
    }
    return (ssize_t)have;
}

#endif
