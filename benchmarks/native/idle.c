// Opens connections and holds them, saying nothing on them, until the input ends.
#define _GNU_SOURCE
#include "modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

void run_idle(Options *options) {
    const char *host = option_text(options, "host", "127.0.0.1");
    int port = (int)option_number(options, "port", 10911), count = (int)option_number(options, "connections", 1000);
    options_done(options);
    struct rlimit files = {(rlim_t)count + 64, (rlim_t)count + 64}, now;
    getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_cur < files.rlim_cur) {
        files.rlim_max = now.rlim_max > files.rlim_cur ? now.rlim_max : files.rlim_cur;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) die("%d connections need more file descriptors than allowed", count);
    }
    for (int i = 0; i < count; i++) {
        Connection connection;
        connection_open(&connection, host, port);
        free(connection.in);
        free(connection.out);
    }
    say("begin");
    while (getchar() != EOF) continue;
    say("end");
    printf("{\"connections\":%d}\n", count);
}
