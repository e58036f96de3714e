// A library loaded at run time is found, used from a thread, and unloaded.
// build: -ldl
#include "guest.h"
#include <dlfcn.h>

static double (*cosine)(double);

static void *body(void *argument) {
    printf("%.3f\n", cosine(0.0) + cosine(1.0));
    return argument;
}

int main(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library);
    *(void **)&cosine = dlsym(library, "cos");
    CHECK(cosine && dlsym(library, "no_such_symbol") == NULL && dlerror());
    join(start(body, NULL));
    CHECK(dlclose(library) == 0);
    CHECK(dlopen("libno-such-library.so", RTLD_NOW) == NULL);
}
