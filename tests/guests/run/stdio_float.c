// Two threads compute and print floating-point numbers at the same time; digits come out right.
// unordered
// build: -lm
#include "guest.h"
#include <math.h>

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    double x = me;
    long double precise = me;
    for (int i = 1; i <= 8; i++) {
        x = sqrt(x * i + 1.0);
        precise = precise * 1.1L + i;
        printf("%d.%d %.12f %.12Lf %a\n", me, i, x, precise, sin(x));
    }
    return NULL;
}

int main(void) {
    pthread_t one = start(body, (void *)1), two = start(body, (void *)2);
    join(one);
    join(two);
}
