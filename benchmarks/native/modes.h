// The modes of the load tool; each reads its options, runs, and prints one JSON line.
#pragma once
#include "core.h"

void run_send(Options *options);
void run_consume(Options *options);
void run_idle(Options *options);
void run_e2e(Options *options);
