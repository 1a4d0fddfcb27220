// What every mode of the load tool needs: time, options, connections with buffers, latencies.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// -- time, errors, words to the runner -----------------------------------------------------------

uint64_t now_ns(void);     // CLOCK_MONOTONIC
uint64_t cpu_ns(void);     // user + system time of this process
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *word);  // one line on stdout at once; the runner reads the broker's CPU at "begin" and "end"

// -- options: --name value -----------------------------------------------------------------------

typedef struct { int count; char **values; } Options;
const char *option_text(Options *options, const char *name, const char *otherwise);
double option_number(Options *options, const char *name, double otherwise);
void options_done(Options *options);  // dies when one was not asked for

// -- connections ---------------------------------------------------------------------------------

typedef struct {
    int fd;
    uint8_t *in, *out;
    size_t in_size, in_room;
    size_t out_at, out_size, out_room;  // out_at .. out_size waits to be written
} Connection;

void connection_open(Connection *c, const char *host, int port);
uint8_t *connection_room(Connection *c, size_t size);  // where to put `size` bytes; then out_size += what was put
void connection_put(Connection *c, const void *bytes, size_t size);
void connection_print(Connection *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void connection_flush(Connection *c);                  // writes what the socket takes
bool connection_fill(Connection *c);                   // reads what is there; false: nothing was
void connection_take(Connection *c, size_t size);      // drops what was handled
static inline bool connection_waits(const Connection *c) { return c->out_at < c->out_size; }

// -- latencies: 64 steps per doubling, so within 1.6 % -------------------------------------------

typedef struct { uint64_t counts[64 * 48], count, sum, max; } Latencies;
void latencies_add(Latencies *l, uint64_t ns);
double latencies_us(const Latencies *l, double share);  // share 0.5: the median
