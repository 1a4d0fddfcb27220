// RocketMQ's remoting protocol, as much of it as a load needs: send and pull requests, answers, records.
#pragma once
#include "core.h"

static inline uint32_t get32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}
static inline uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

enum { OPAQUES = 100000000 };  // requests of a connection are numbered 0 .. OPAQUES - 1, then again from 0

// A request under construction: begin, any number of fields, end.  One at a time.
typedef struct { Connection *connection; bool is_json; size_t start; int fields; } Request;
Request request_begin(Connection *c, bool is_json, int code, uint32_t opaque);
void request_field(Request *r, const char *name, const char *value);
void request_number(Request *r, const char *name, int64_t value);
void request_end(Request *r, const void *body, size_t body_size);

// A single SEND_MESSAGE_V2, built once; each send copies it and changes digits in place.
typedef struct { uint8_t *frame; size_t size, opaque, queue, id, body; bool is_json; } SendFrame;
void send_frame_make(SendFrame *f, bool is_json, const char *topic, size_t body_size);
uint8_t *send_frame_put(const SendFrame *f, Connection *c, uint32_t opaque, unsigned queue, uint64_t number);  // → body

typedef struct {
    size_t size;  // of the whole frame
    bool is_json;
    int code;
    uint32_t opaque;
    const uint8_t *header, *body;
    size_t header_size, body_size;
} Answer;
bool answer_read(const Connection *c, size_t at, Answer *answer);  // false: not all of it has come
int64_t answer_number(const Answer *answer, const char *field);    // -1: not there

typedef struct { size_t size; uint64_t offset; const uint8_t *body; size_t body_size; } Record;
bool record_read(const uint8_t *at, size_t size, Record *record);  // false: no whole record

void pull_put(Connection *c, bool is_json, uint32_t opaque, const char *group, const char *topic, unsigned queue,
              uint64_t offset, int count, bool parks);
