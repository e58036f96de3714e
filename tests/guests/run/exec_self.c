// A program that replaces itself: arguments, environment and inherited descriptors arrive, close-on-exec ones are gone.
#include "guest.h"

extern char **environ;

int main(int argc, char **argv) {
    if (argc == 1) {
        int kept = open("kept", O_RDWR | O_CREAT, 0644), closed = open("closed", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        CHECK(kept >= 0 && closed >= 0);
        write_all(kept, "offset kept across exec");
        CHECK(lseek(kept, 7, SEEK_SET) == 7);
        CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
        char kept_text[12], closed_text[12];
        snprintf(kept_text, sizeof kept_text, "%d", kept);
        snprintf(closed_text, sizeof closed_text, "%d", closed);
        char *arguments[] = {"second", kept_text, closed_text, "last argument", NULL};
        char *environment[] = {"ONLY=this", NULL};
        puts("first image");
        fflush(stdout);
        execve("/proc/self/exe", arguments, environment);
        CHECK(!"execve returned");
    }
    printf("second image: argv[0]=%s, %s, %s\n", argv[0], argv[3], getenv("ONLY"));
    CHECK(argc == 4 && environ[1] == NULL);
    char text[32] = {0};
    CHECK(read(atoi(argv[1]), text, 4) == 4);
    printf("read: %s\n", text);
    FAILS(read(atoi(argv[2]), text, 1), EBADF);
    CHECK(raise(SIGUSR1) == 0);
    puts("ignored signal is still ignored");
}
