// Arguments, environment and the name of the program arrive as given; the environment can be changed.
// args: one "two words" '' --four=5
#include "guest.h"
#include <libgen.h>
#include <sys/auxv.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        printf("argv[%d]=[%s]\n", i, argv[i]);
    CHECK(getenv("PATH") && getenv("NO_SUCH_VARIABLE") == NULL);
    CHECK(setenv("MINE", "value", 1) == 0 && strcmp(getenv("MINE"), "value") == 0);
    CHECK(unsetenv("MINE") == 0 && getenv("MINE") == NULL);
    CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_RANDOM) != 0 && getauxval(AT_ENTRY) != 0);
    char exe[PATH_MAX] = {0};
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    CHECK(strcmp(basename(exe), basename(argv[0])) == 0);
    CHECK(strcmp(program_invocation_short_name, basename(argv[0])) == 0);
}
