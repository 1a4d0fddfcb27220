// Preloaded into a broker: counts its fsync, fdatasync and msync calls into the file that LITEMQ_BENCH_SYNCS names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *counts;  // fsync, fdatasync, msync

__attribute__((constructor)) static void open_counts(void) {
    const char *path = getenv("LITEMQ_BENCH_SYNCS");
    int file = path == NULL ? -1 : open(path, O_RDWR);
    if (file < 0) return;
    void *mapped = mmap(NULL, 24, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) counts = mapped;
    close(file);
}

static void count(int which) {
    if (counts != NULL) atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

int fsync(int file) {
    count(0);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    count(1);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

int msync(void *at, size_t size, int flags) {
    count(2);
    return ((int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync"))(at, size, flags);
}
