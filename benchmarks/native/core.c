#define _GNU_SOURCE
#include "core.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void die(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("loadtool: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(1);
}

void say(const char *word) {
    puts(word);
    fflush(stdout);
}

// -- options --------------------------------------------------------------------------------------

const char *option_text(Options *options, const char *name, const char *otherwise) {
    for (int i = 0; i + 1 < options->count; i += 2) {
        char *given = options->values[i];
        if (given != NULL && strncmp(given, "--", 2) == 0 && strcmp(given + 2, name) == 0) {
            options->values[i] = NULL;  // asked for
            return options->values[i + 1];
        }
    }
    if (otherwise == NULL) die("--%s is needed", name);
    return otherwise;
}

double option_number(Options *options, const char *name, double otherwise) {
    const char *text = option_text(options, name, "");
    if (*text == '\0') return otherwise;
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0') die("--%s: %s is no number", name, text);
    return value;
}

void options_done(Options *options) {
    if (options->count % 2 != 0) die("%s has no value", options->values[options->count - 1]);
    for (int i = 0; i < options->count; i += 2)
        if (options->values[i] != NULL) die("unknown option %s", options->values[i]);
}

// -- connections ----------------------------------------------------------------------------------

void connection_open(Connection *c, const char *host, int port) {
    *c = (Connection){.in_room = 1 << 18, .out_room = 1 << 16};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) die("%s is no IPv4 address", host);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0) die("socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect to %s:%d: %s", host, port, strerror(errno));
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->in = malloc(c->in_room);
    c->out = malloc(c->out_room);
}

uint8_t *connection_room(Connection *c, size_t size) {
    if (c->out_at == c->out_size) c->out_at = c->out_size = 0;
    if (c->out_size + size > c->out_room && c->out_at > 0) {
        memmove(c->out, c->out + c->out_at, c->out_size - c->out_at);
        c->out_size -= c->out_at;
        c->out_at = 0;
    }
    if (c->out_size + size > c->out_room) {
        while (c->out_size + size > c->out_room) c->out_room *= 2;
        c->out = realloc(c->out, c->out_room);
        if (c->out == NULL) die("no memory for %zu bytes of output", c->out_room);
    }
    return c->out + c->out_size;
}

void connection_put(Connection *c, const void *bytes, size_t size) {
    memcpy(connection_room(c, size), bytes, size);
    c->out_size += size;
}

void connection_print(Connection *c, const char *format, ...) {
    char text[4096];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (size < 0 || (size_t)size >= sizeof text) die("a command is too long");
    connection_put(c, text, (size_t)size);
}

void connection_flush(Connection *c) {
    while (connection_waits(c)) {
        ssize_t wrote = send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (wrote < 0) die("send: %s", strerror(errno));
        c->out_at += (size_t)wrote;
    }
}

bool connection_fill(Connection *c) {
    if (c->in_size == c->in_room) {  // one answer is larger than the buffer
        c->in_room *= 2;
        c->in = realloc(c->in, c->in_room);
        if (c->in == NULL) die("no memory for %zu bytes of input", c->in_room);
    }
    ssize_t got = recv(c->fd, c->in + c->in_size, c->in_room - c->in_size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) die("recv: %s", strerror(errno));
    if (got == 0) die("the server closed a connection");
    c->in_size += (size_t)got;
    return true;
}

void connection_take(Connection *c, size_t size) {
    if (size == 0) return;
    memmove(c->in, c->in + size, c->in_size - size);
    c->in_size -= size;
}

// -- latencies ------------------------------------------------------------------------------------

static size_t step_of(uint64_t ns) {
    if (ns < 64) return ns;
    int doublings = 63 - __builtin_clzll(ns) - 6;
    size_t step = (size_t)doublings * 64 + (size_t)(ns >> doublings);
    size_t last = sizeof((Latencies *)0)->counts / sizeof(uint64_t) - 1;
    return step < last ? step : last;
}

static double end_of_step(size_t step) {
    if (step < 128) return (double)step + 1;
    size_t doublings = step / 64 - 1;
    return (double)((64 + step % 64 + 1) << doublings);
}

void latencies_add(Latencies *l, uint64_t ns) {
    l->counts[step_of(ns)]++;
    l->count++;
    l->sum += ns;
    if (ns > l->max) l->max = ns;
}

double latencies_us(const Latencies *l, double share) {
    uint64_t wanted = (uint64_t)(share * (double)l->count), seen = 0;
    if (wanted >= l->count && l->count > 0) wanted = l->count - 1;
    for (size_t step = 0; step < sizeof l->counts / sizeof *l->counts; step++) {
        seen += l->counts[step];
        if (seen > wanted) {
            double end = end_of_step(step);
            return (end < (double)l->max ? end : (double)l->max) / 1e3;
        }
    }
    return 0;
}
