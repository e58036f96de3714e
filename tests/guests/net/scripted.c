// A client or a server that says what its scripts say, so that one program stands for many.
// Called as scripted PLACE connect|accept SHARED SCRIPT...
// Main opens SHARED connections (at most two), then each script is followed by a thread of its own. A script is a row of these:
//   o       open a connection of this thread's own; all that follows is about it
//   0 1     what follows is about this shared connection
//   2       what follows is about the thread's own connection again
//   wTEXT;  write TEXT; / stands for the end of a line, | separates what is written by calls of its own
//   v V     write a number that depends on who was first; V by two calls
//   e       write a letter that depends on what this thread has seen
//   rN      read once, at most N bytes (one digit)
//   l       read to the end of a line
//   dN      read what there is, at most N bytes, without waiting
//   p       is there something to read?
//   f       say no more
//   c       close the thread's own connection
//   +       change what others write with v
//   !       fail for one in three of all the things that this thread can have seen
// Whatever is seen goes into a number for each thread, and main prints them all.
#include "net.h"
#include <poll.h>

struct thread {
    const char *script;
    unsigned seen;
    int own;
};

static const char *place;
static int listener = -1, shared[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int number;

static int open_one(void) {
    if (listener < 0)
        return connect_to_place(place);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    return fd;
}

static void see(struct thread *self, unsigned what) {
    self->seen = (self->seen * 31 + what) % 9973;
}

static int next_number(void) {
    OK(pthread_mutex_lock(&lock));
    int mine = number++;
    OK(pthread_mutex_unlock(&lock));
    return mine;
}

static void say(struct thread *self, int fd, const char *text, size_t length) {
    // Whoever is told something may have gone: that is seen, and not the end.
    ssize_t said = send(fd, text, length, MSG_NOSIGNAL);
    see(self, said == (ssize_t)length ? 1 : 1000 + errno);
}

// Writes up to the semicolon; what follows it.
static const char *say_text(struct thread *self, int fd, const char *text) {
    char piece[64];
    size_t length = 0;
    for (;; text++) {
        if (*text == '|' || *text == ';') {
            say(self, fd, piece, length);
            length = 0;
        } else {
            CHECK(*text && length < sizeof piece);
            piece[length++] = *text == '/' ? '\n' : *text;
        }
        if (*text == ';')
            return text + 1;
    }
}

// The last byte that was read, or a number that is no byte.
static int hear(struct thread *self, int fd, size_t most, int flags) {
    char bytes[64];
    ssize_t got = recv(fd, bytes, most, flags);
    if (got <= 0) {
        see(self, got == 0 ? 256 : 1000 + errno);
        return 256;
    }
    for (ssize_t i = 0; i < got; i++)
        see(self, (unsigned char)bytes[i]);
    return bytes[got - 1];
}

static const char *follow_one(struct thread *self, int *fd, const char *at) {
    char text[2] = {0, '\n'}, what = *at++;
    struct pollfd asked = {*fd, POLLIN, 0};
    switch (what) {
    case 'o':
        *fd = self->own = open_one();
        return at;
    case '0':
    case '1':
        *fd = shared[what - '0'];
        return at;
    case '2':
        *fd = self->own;
        return at;
    case 'w':
        return say_text(self, *fd, at);
    case 'v':
        text[0] = '0' + next_number() % 10;
        say(self, *fd, text, 2);
        return at;
    case 'V':
        text[0] = '0' + next_number() % 10;
        say(self, *fd, text, 1);
        say(self, *fd, text + 1, 1);
        return at;
    case 'e':
        text[0] = 'a' + self->seen % 4;
        say(self, *fd, text, 2);
        return at;
    case 'r':
        hear(self, *fd, *at - '0', 0);
        return at + 1;
    case 'd':
        hear(self, *fd, *at - '0', MSG_DONTWAIT);
        return at + 1;
    case 'l':
        for (int last = 0; last != '\n' && last != 256;)
            last = hear(self, *fd, 64, 0);
        return at;
    case 'p':
        CHECK(poll(&asked, 1, 0) >= 0);
        see(self, asked.revents);
        return at;
    case 'f':
        see(self, shutdown(*fd, SHUT_WR) == 0 ? 2 : 1000 + errno);
        return at;
    case 'c':
        CHECK(close(self->own) == 0);
        return at;
    case '+':
        next_number();
        return at;
    case '!':
        if (self->seen % 3 == 0)
            abort();
        return at;
    default:
        CHECK(!"a known step");
        return at;
    }
}

static void *follow(void *argument) {
    struct thread *self = argument;
    int fd = shared[0];
    for (const char *at = self->script; *at;)
        at = follow_one(self, &fd, at);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 5 && argc <= 4 + 4);
    place = argv[1];
    if (strcmp(argv[2], "accept") == 0)
        listener = listen_at_place(place);
    int opened = atoi(argv[3]), n = argc - 4;
    CHECK(opened <= 2);
    for (int i = 0; i < opened; i++)
        shared[i] = open_one();
    struct thread threads[4] = {0};
    pthread_t ids[4];
    for (int i = 0; i < n; i++) {
        threads[i].script = argv[4 + i];
        ids[i] = start(follow, &threads[i]);
    }
    for (int i = 0; i < n; i++)
        join(ids[i]);
    for (int i = 0; i < n; i++)
        printf("%u ", threads[i].seen);
    printf("%d\n", number);
    return 0;
}
