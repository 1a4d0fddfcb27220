#define _GNU_SOURCE
#include "remoting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEND_MESSAGE_V2 = 310, PULL_MESSAGE = 11, VERSION = 493 };
// In JSON an opaque must keep its width to be changed in place, and a number may not begin with 0.
enum { FIRST_OPAQUE = 2000000000 };
enum { COMMITS = 1, PARKS = 2, HAS_SUBSCRIPTION = 4 };  // of a pull's sysFlag

static void put16(uint8_t *at, unsigned value) { at[0] = (uint8_t)(value >> 8), at[1] = (uint8_t)value; }
static void put32(uint8_t *at, uint32_t value) { put16(at, value >> 16), put16(at + 2, value & 0xffff); }

// -- requests -------------------------------------------------------------------------------------

Request request_begin(Connection *c, bool is_json, int code, uint32_t opaque) {
    connection_room(c, 64);  // may move what is waiting, so `start` is taken after it
    Request r = {.connection = c, .is_json = is_json, .start = c->out_size - c->out_at};
    uint8_t words[8] = {0};
    connection_put(c, words, sizeof words);
    if (is_json) {
        connection_print(c, "{\"code\":%d,\"language\":\"JAVA\",\"version\":%d,\"opaque\":%" PRIu32 ",\"flag\":0,"
                         "\"serializeTypeCurrentRPC\":\"JSON\",\"extFields\":{", code, VERSION, FIRST_OPAQUE + opaque);
    } else {
        uint8_t fixed[21] = {0};
        put16(fixed, (unsigned)code), put16(fixed + 3, VERSION), put32(fixed + 5, FIRST_OPAQUE + opaque);
        connection_put(c, fixed, sizeof fixed);
    }
    return r;
}

static void put_json_text(Connection *c, const char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\') connection_print(c, "\\u%04x", *text);
        else connection_put(c, text, 1);
    }
}

void request_field(Request *r, const char *name, const char *value) {
    Connection *c = r->connection;
    if (r->is_json) {
        connection_print(c, "%s\"%s\":\"", r->fields++ > 0 ? "," : "", name);
        put_json_text(c, value);
        connection_put(c, "\"", 1);
        return;
    }
    uint8_t size[4];
    put16(size, (unsigned)strlen(name)), connection_put(c, size, 2), connection_put(c, name, strlen(name));
    put32(size, (uint32_t)strlen(value)), connection_put(c, size, 4), connection_put(c, value, strlen(value));
}

void request_number(Request *r, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    request_field(r, name, text);
}

void request_end(Request *r, const void *body, size_t body_size) {
    Connection *c = r->connection;
    if (r->is_json) connection_put(c, "}}", 2);
    uint8_t *frame = c->out + c->out_at + r->start;
    size_t header = (size_t)(c->out + c->out_size - frame) - 8;
    put32(frame, (uint32_t)(4 + header + body_size));
    put32(frame + 4, (r->is_json ? 0 : 0x01000000u) | (uint32_t)header);
    if (!r->is_json) put32(frame + 8 + 17, (uint32_t)(header - 21));
    connection_put(c, body, body_size);
}

// -- sends ----------------------------------------------------------------------------------------

static void put_digits(uint8_t *at, int count, uint64_t value) {
    while (count-- > 0) at[count] = (uint8_t)('0' + value % 10), value /= 10;
}

static size_t find(const uint8_t *frame, size_t size, const char *mark) {
    const uint8_t *at = memmem(frame, size, mark, strlen(mark));
    if (at == NULL) die("a frame lacks %s", mark);
    return (size_t)(at - frame);
}

void send_frame_make(SendFrame *f, bool is_json, const char *topic, size_t body_size) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint8_t *body = calloc(1, body_size + 1);
    for (size_t i = 0; i < body_size; i++) body[i] = (uint8_t)('a' + i % 26);
    Connection built = {.out_room = 1 << 10, .out = malloc(1 << 10)};
    Request r = request_begin(&built, is_json, SEND_MESSAGE_V2, 0);
    request_field(&r, "a", "benchmark_producer");
    request_field(&r, "b", topic);
    request_field(&r, "c", "TBW102");
    request_number(&r, "d", 4);
    request_field(&r, "e", "00000");
    request_number(&r, "f", 0);
    request_number(&r, "g", now.tv_sec * 1000 + now.tv_nsec / 1000000);
    request_number(&r, "h", 0);
    request_field(&r, "i", "UNIQ_KEY\x01" "7F000001C350C0DE0000################" "\x02WAIT\x01true");
    request_number(&r, "j", 0);
    request_field(&r, "k", "false");
    request_field(&r, "m", "false");
    request_end(&r, body, body_size);
    free(body);
    *f = (SendFrame){.frame = built.out, .size = built.out_size, .is_json = is_json, .body = built.out_size - body_size};
    f->opaque = is_json ? find(f->frame, f->size, "\"opaque\":") + 9 : 13;
    f->queue = is_json ? find(f->frame, f->size, "\"e\":\"") + 5 : find(f->frame, f->size, "00000");
    f->id = find(f->frame, f->size, "################");
}

uint8_t *send_frame_put(const SendFrame *f, Connection *c, uint32_t opaque, unsigned queue, uint64_t number) {
    uint8_t *at = connection_room(c, f->size);
    memcpy(at, f->frame, f->size);
    c->out_size += f->size;
    if (f->is_json) put_digits(at + f->opaque + 1, 9, opaque);
    else put32(at + f->opaque, FIRST_OPAQUE + opaque);
    put_digits(at + f->queue, 5, queue);
    for (int i = 15; i >= 0; i--, number >>= 4) at[f->id + (size_t)i] = (uint8_t)"0123456789ABCDEF"[number & 15];
    return at + f->body;
}

// -- pulls ----------------------------------------------------------------------------------------

void pull_put(Connection *c, bool is_json, uint32_t opaque, const char *group, const char *topic, unsigned queue,
              uint64_t offset, int count, bool parks) {
    Request r = request_begin(c, is_json, PULL_MESSAGE, opaque);
    request_field(&r, "consumerGroup", group);
    request_field(&r, "topic", topic);
    request_number(&r, "queueId", queue);
    request_number(&r, "queueOffset", (int64_t)offset);
    request_number(&r, "maxMsgNums", count);
    request_number(&r, "sysFlag", COMMITS | HAS_SUBSCRIPTION | (parks ? PARKS : 0));
    request_number(&r, "commitOffset", (int64_t)offset);
    request_number(&r, "suspendTimeoutMillis", parks ? 15000 : 0);
    request_field(&r, "subscription", "*");
    request_number(&r, "subVersion", 0);
    request_field(&r, "expressionType", "TAG");
    request_end(&r, "", 0);
}

// -- answers --------------------------------------------------------------------------------------

static const uint8_t *json_value(const uint8_t *header, size_t size, const char *name) {
    char quoted[64];
    int length = snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const uint8_t *at = memmem(header, size, quoted, (size_t)length), *end = header + size;
    if (at == NULL) return NULL;
    at += length;
    while (at < end && (*at == ' ' || *at == '"')) at++;
    return at < end ? at : NULL;
}

bool answer_read(const Connection *c, size_t at, Answer *a) {
    size_t have = c->in_size - at;
    if (have < 8) return false;
    const uint8_t *frame = c->in + at;
    uint32_t rest = get32(frame), word = get32(frame + 4);
    size_t header_size = word & 0xffffff;
    if (rest > 1 << 24 || header_size + 4 > rest) die("an answer has %u bytes, %zu of them header", rest, header_size);
    if (have < 4 + (size_t)rest) return false;
    *a = (Answer){.size = 4 + (size_t)rest, .is_json = word >> 24 == 0, .header = frame + 8,
                  .header_size = header_size, .body = frame + 8 + header_size, .body_size = rest - 4 - header_size};
    uint32_t flag;
    if (a->is_json) {
        const uint8_t *code = json_value(a->header, header_size, "code");
        const uint8_t *opaque = json_value(a->header, header_size, "opaque");
        const uint8_t *bits = json_value(a->header, header_size, "flag");
        if (code == NULL || opaque == NULL || bits == NULL) die("bad answer: %.*s", (int)header_size, a->header);
        a->code = atoi((const char *)code);
        a->opaque = (uint32_t)strtol((const char *)opaque, NULL, 10);
        flag = (uint32_t)atoi((const char *)bits);
    } else {
        if (header_size < 21) die("a binary header has %zu bytes", header_size);
        a->code = (int16_t)(a->header[0] << 8 | a->header[1]);
        a->opaque = get32(a->header + 5);
        flag = get32(a->header + 9);
    }
    if ((flag & 1) == 0) a->code = -1, a->opaque = UINT32_MAX;  // the broker calls us; nobody waits for that
    else a->opaque -= FIRST_OPAQUE;
    return true;
}

int64_t answer_number(const Answer *a, const char *field) {
    if (a->is_json) {
        const uint8_t *value = json_value(a->header, a->header_size, field);
        return value == NULL ? -1 : strtoll((const char *)value, NULL, 10);
    }
    size_t wanted = strlen(field);
    const uint8_t *at = a->header + 17 + get32(a->header + 13), *end = a->header + a->header_size;
    for (at += 4; at + 6 <= end;) {
        size_t name_size = (size_t)at[0] << 8 | at[1];
        const uint8_t *name = at + 2, *value = name + name_size + 4;
        if (value > end) break;
        size_t value_size = get32(value - 4);
        if (value_size > (size_t)(end - value)) break;
        if (name_size == wanted && memcmp(name, field, wanted) == 0) {
            char text[24] = {0};
            memcpy(text, value, value_size < sizeof text ? value_size : sizeof text - 1);
            return strtoll(text, NULL, 10);
        }
        at = value + value_size;
    }
    return -1;
}

bool record_read(const uint8_t *at, size_t size, Record *record) {
    if (size < 91) return false;
    uint32_t whole = get32(at), magic = get32(at + 4), flags = get32(at + 36);
    if (whole > size || (magic != 0xDAA320A7 && magic != 0xDAA320AB)) return false;
    size_t body = 88 + (flags & 0x10 ? 12 : 0) + (flags & 0x20 ? 12 : 0);  // IPv6 hosts are longer
    *record = (Record){.size = whole, .offset = get64(at + 20), .body = at + body, .body_size = get32(at + body - 4)};
    return body + record->body_size < whole;
}
