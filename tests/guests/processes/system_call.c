// system() runs a shell, waits for it, and leaves other children alone.
#include "processes.h"

int main(void) {
    CHECK(system(NULL) != 0);
    int status = system("exit 3");
    CHECK(WIFEXITED(status));
    printf("exit 3: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    status = system("echo from the shell");
    CHECK(status == 0);
    status = system("echo one two three | tr ' ' '\\n' | sort -r | head -n 2");
    CHECK(status == 0);
    status = system("kill -TERM $$");
    CHECK(WIFSIGNALED(status));
    printf("signal %d\n", WTERMSIG(status));
    status = system("no-such-command-anywhere 2> /dev/null");
    printf("not found: %d\n", WEXITSTATUS(status));
    pid_t pid = CHILD(_exit(4));
    CHECK(system("true") == 0);
    printf("my child: %d\n", exit_of(pid));
}
