// End to end over Redis Streams: pipelined XADD; XREADGROUP that blocks, each read acknowledged with the next one.
#define _GNU_SOURCE
#include "e2e.h"

#include <stdlib.h>
#include <string.h>

// One RESP value at a time: type, its line's number, and for bulk strings the bytes.
typedef struct { char type; long number; const uint8_t *bytes; size_t at; } Value;

static bool value_read(const Connection *c, size_t at, Value *value) {
    const uint8_t *start = c->in + at, *end = c->in + c->in_size;
    const uint8_t *line = at < c->in_size ? memmem(start, (size_t)(end - start), "\r\n", 2) : NULL;
    if (line == NULL) return false;
    *value = (Value){(char)*start, atol((const char *)start + 1), start + 1, (size_t)(line + 2 - c->in)};
    if (value->type != '$' || value->number < 0) return true;
    value->bytes = c->in + value->at;
    value->at += (size_t)value->number + 2;
    return value->at <= c->in_size;
}

// → where the value with all that it holds ends; 0: not all of it has come
static size_t whole(const Connection *c, size_t at) {
    Value value;
    if (!value_read(c, at, &value)) return 0;
    size_t end = value.at;
    if (value.type == '*')
        for (long i = 0; i < value.number && end != 0; i++) end = whole(c, end);
    return end;
}

static void command(Connection *c, int count, const char **parts, const size_t *sizes) {
    connection_print(c, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        size_t size = sizes != NULL && sizes[i] > 0 ? sizes[i] : strlen(parts[i]);
        connection_print(c, "$%zu\r\n", size);
        connection_put(c, parts[i], size);
        connection_put(c, "\r\n", 2);
    }
}

static void read_more(E2E *e) {
    const char *parts[] = {"XREADGROUP", "GROUP", e->group, "one", "COUNT", "1000", "BLOCK", "0", "STREAMS", e->topic, ">"};
    command(&e->consumer, 11, parts, NULL);
}

static void set_up(E2E *e) {
    const char *remove[] = {"DEL", e->topic}, *make[] = {"XGROUP", "CREATE", e->topic, e->group, "0", "MKSTREAM"};
    command(&e->consumer, 2, remove, NULL);
    command(&e->consumer, 6, make, NULL);
    size_t first, second;
    do e2e_wait(&e->consumer);
    while ((first = whole(&e->consumer, 0)) == 0 || (second = whole(&e->consumer, first)) == 0);
    if (e->consumer.in[first] != '+') die("XGROUP CREATE: %.*s", (int)(second - first), e->consumer.in + first);
    connection_take(&e->consumer, second);
    read_more(e);
    connection_flush(&e->consumer);
}

static void publish(E2E *e, uint64_t number, const uint8_t *body) {
    (void)number;
    const char *parts[] = {"XADD", e->topic, "*", "b", (const char *)body};
    size_t sizes[] = {0, 0, 0, 0, e->body_size};
    command(&e->producer, 5, parts, sizes);
}

static size_t read_acks(E2E *e) {
    size_t at = 0;
    Value value;
    for (; value_read(&e->producer, at, &value); at = value.at) {
        if (value.type == '$') {
            e2e_acked(e, e->acked + e->refused);  // Redis answers in order
        } else {
            e->refused++;
            e2e_complain(e, "XADD", value.bytes, value.at - at - 1);
        }
    }
    return at;
}

// *1 [ *2 [ stream, *n [ *2 [ id, *2 [ "b", body ] ] … ] ] ]
static void read_stream(E2E *e, size_t at) {
    Connection *c = &e->consumer;
    Value value, id = {0};
    for (int i = 0; i < 3; i++) value_read(c, at, &value), at = value.at;
    value_read(c, at, &value);
    long count = value.number;
    connection_print(c, "*%ld\r\n$4\r\nXACK\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", count + 3, strlen(e->topic), e->topic,
                     strlen(e->group), e->group);
    for (long i = 0; i < count; i++) {
        value_read(c, value.at, &value);  // *2
        value_read(c, value.at, &id);
        value_read(c, id.at, &value);  // *2
        value_read(c, value.at, &value);  // the field's name
        value_read(c, value.at, &value);
        e2e_delivered(e, 0, value.bytes, (size_t)value.number);
        connection_print(c, "$%ld\r\n", id.number);
        connection_put(c, id.bytes, (size_t)id.number + 2);
    }
}

static size_t read_deliveries(E2E *e) {
    size_t at = 0, end;
    for (; (end = whole(&e->consumer, at)) != 0; at = end) {
        Value value;
        value_read(&e->consumer, at, &value);
        if (value.type == ':') continue;  // the answer of an XACK
        if (value.type == '*' && value.number == 1) read_stream(e, at);
        else e2e_complain(e, "XREADGROUP", value.bytes, end - at - 1);
        read_more(e);
    }
    return at;
}

const Protocol REDIS = {"redis", 6379, set_up, publish, read_acks, read_deliveries};
