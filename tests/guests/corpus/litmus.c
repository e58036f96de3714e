// The classic shapes of memory models: a few loads and stores of atomics, relaxed, so that nothing orders them but the threads themselves.
// The name of a shape, and what else is said does not matter.
#include "corpus.h"

// Of words of their own: operations on parts of one word are taken for dependent.
static _Alignas(64) atomic_int x;
static _Alignas(64) atomic_int y;
static _Alignas(64) atomic_int z;
// Only the thread that fills one looks at it, so that what was seen decides nothing.
static _Thread_local int seen[8];

#define W(variable, value) atomic_store_explicit(&variable, value, memory_order_relaxed)
#define R(variable) atomic_load_explicit(&variable, memory_order_relaxed)
#define SHAPE(name, ...)                                                                                               \
    static void name(void) {                                                                                           \
        const body bodies[] = {__VA_ARGS__};                                                                           \
        gated(bodies, sizeof bodies / sizeof *bodies);                                                                 \
    }

// Each thread waits for a word of its own, and never ends: while threads are made, end and are waited for, the C library's lists of them depend on the
// order. So what is left to be ordered is the shape.
static struct {
    _Alignas(64) sem_t open;
    _Alignas(64) sem_t done;
    _Alignas(64) sem_t never;
    body work;
} gates[4];
THREAD(waits) {
    long i = (long)argument;
    sem_wait(&gates[i].open);
    gates[i].work(0);
    sem_post(&gates[i].done);
    sem_wait(&gates[i].never);
    return 0;
}
static void gated(const body *bodies, int count) {
    pthread_t thread;
    for (long i = 0; i < count; i++) {
        gates[i].work = bodies[i];
        pthread_create(&thread, NULL, waits, (void *)i);
    }
    for (int i = 0; i < count; i++)
        sem_post(&gates[i].open);
    for (int i = 0; i < count; i++)
        sem_wait(&gates[i].done);
    _exit(0);
}

THREAD(wx) { W(x, 1); return 0; }
THREAD(wy) { W(y, 1); return 0; }
THREAD(wx_wy) { W(x, 1), W(y, 1); return 0; }
THREAD(wx_ry) { W(x, 1), seen[0] = R(y); return 0; }
THREAD(wy_rx) { W(y, 1), seen[1] = R(x); return 0; }
THREAD(ry_rx) { seen[2] = R(y), seen[3] = R(x); return 0; }
THREAD(rx_ry) { seen[4] = R(x), seen[5] = R(y); return 0; }
THREAD(rx_wy) { seen[0] = R(x), W(y, 1); return 0; }
THREAD(ry_wx) { seen[1] = R(y), W(x, 1); return 0; }
THREAD(rx_rx) { seen[0] = R(x), seen[1] = R(x); return 0; }
THREAD(wy_wx) { W(y, 2), W(x, 2); return 0; }
THREAD(ry_wz) { seen[6] = R(y), W(z, 1); return 0; }
THREAD(rz_rx) { seen[7] = R(z), seen[0] = R(x); return 0; }
THREAD(wz_rx) { W(z, 2), seen[1] = R(x); return 0; }

SHAPE(SB, wx_ry, wy_rx)
SHAPE(MP, wx_wy, ry_rx)
SHAPE(LB, rx_wy, ry_wx)
SHAPE(IRIW, wx, wy, rx_ry, ry_rx)
SHAPE(CoRR, wx, rx_rx)
SHAPE(TwoPlusTwoW, wx_wy, wy_wx)
SHAPE(RWC, wx, rx_ry, wy_rx)
SHAPE(WRC, wx, rx_wy, ry_rx)
SHAPE(ISA2, wx_wy, ry_wz, rz_rx)
SHAPE(S, wx_wy, ry_wx)
SHAPE(R_, wx_wy, wy_rx)
SHAPE(Z6, wx_wy, ry_wz, wz_rx)

PROGRAMS(P(SB), P(MP), P(LB), P(IRIW), P(CoRR), P(TwoPlusTwoW), P(RWC), P(WRC), P(ISA2), P(S), P(R_), P(Z6))
