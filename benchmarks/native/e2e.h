// What the end-to-end mode asks of a protocol: set up, publish one, read acknowledgements, read deliveries.
#pragma once
#include "core.h"

typedef struct E2E E2E;

typedef struct {
    const char *name;
    int default_port;
    void (*set_up)(E2E *e);                                      // makes what is needed; may block
    void (*publish)(E2E *e, uint64_t number, const uint8_t *body);  // puts, does not flush
    size_t (*read_acks)(E2E *e);                                 // → bytes of producer.in that were handled
    size_t (*read_deliveries)(E2E *e);                           // → bytes of consumer.in that were handled
} Protocol;

extern const Protocol ROCKETMQ, REDIS, NATS;

struct E2E {
    const Protocol *protocol;
    const char *host, *topic, *group;
    int port, queues;
    bool is_json;
    size_t body_size;
    Connection producer, consumer;
    uint64_t count, warm, sent, acked, refused, delivered, duplicates, out_of_order, bad;
    uint8_t *seen;           // by number: how often it came
    int64_t *last;           // by queue: the highest number that came
    uint64_t *offsets;       // by queue, for pulls
    Latencies latencies, acks;
    uint64_t *intended_ns;   // by number
};

void e2e_acked(E2E *e, uint64_t number);
void e2e_delivered(E2E *e, int queue, const uint8_t *body, size_t size);
void e2e_complain(E2E *e, const char *what, const uint8_t *bytes, size_t size);
void e2e_wait(Connection *c);  // flushes, then blocks until something comes; for set_up
