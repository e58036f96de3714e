// A signal from outside may come at any point: before there is a handler, it ends the process.
// options: --faults signal=TERM
// outcomes: "" "ab" "!ab" "a!b" "ab!"
#include <signal.h>
#include <unistd.h>

static void handler(int signal) {
    (void)signal;
    (void)!write(1, "!", 1);
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGTERM, &action, NULL);
    (void)!write(1, "a", 1);
    (void)!write(1, "b", 1);
    return 0;
}
