// loadtool MODE --name value …: loads a broker and checks every answer.  The last line it prints is JSON.
//
//   send     connections × window pipelined single sends
//   consume  drains a backlog, one pull in flight per queue
//   e2e      sends at a fixed rate and consumes beside it; latency from the intended send to the delivery
//   idle     opens connections and holds them until its input ends
#include "modes.h"

#include <string.h>

int main(int count, char **values) {
    if (count < 2) die("which mode? send, consume, e2e, idle");
    Options options = {count - 2, values + 2};
    if (strcmp(values[1], "send") == 0) run_send(&options);
    else if (strcmp(values[1], "consume") == 0) run_consume(&options);
    else if (strcmp(values[1], "e2e") == 0) run_e2e(&options);
    else if (strcmp(values[1], "idle") == 0) run_idle(&options);
    else die("no mode %s; there are send, consume, e2e, idle", values[1]);
    return 0;
}
