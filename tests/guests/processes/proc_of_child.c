// /proc shows one's other processes: state, parent, group, descriptors, program; and what is left of one that has ended.
#include "processes.h"

// The state, the parent and the group from /proc/PID/stat.
static char state_of(pid_t pid, pid_t *parent, pid_t *group) {
    char path[64], text[1024] = "", state;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    CHECK(sscanf(strrchr(text, ')') + 1, " %c %d %d", &state, parent, group) == 3);
    return state;
}

int main(void) {
    turn go = make_turn(), ready = make_turn();
    pid_t pid = CHILD(CHECK(setpgid(0, 0) == 0 && prctl(PR_SET_NAME, "the child") == 0); give(&ready); await(&go));
    await(&ready);
    pid_t parent, group;
    char path[64], text[4096] = "", other[4096];
    state_of(pid, &parent, &group);
    CHECK(parent == getpid() && group == pid);
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int fd = open(path, O_RDONLY);
    CHECK(read(fd, text, sizeof text) > 0 && close(fd) == 0);
    printf("%s", text);
    // The same program with the same words.
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    ssize_t length = read(open(path, O_RDONLY), text, sizeof text);
    CHECK(length > 0 && read(open("/proc/self/cmdline", O_RDONLY), other, sizeof other) == length);
    CHECK(memcmp(text, other, (size_t)length) == 0);
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    CHECK(readlink(path, text, sizeof text) == readlink("/proc/self/exe", other, sizeof other));
    // Its descriptors, and a pipe that both have.
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, go.ends[0]);
    CHECK(readlink(path, text, sizeof text) > 0 && strncmp(text, "pipe:[", 6) == 0);
    CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, NULL, WUNTRACED) == pid);
    printf("stopped: %c\n", state_of(pid, &parent, &group));
    CHECK(kill(pid, SIGCONT) == 0);
    give(&go);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    printf("ended: %c\n", state_of(pid, &parent, &group));
    CHECK(parent == getpid());
    FINE(pid);
    snprintf(path, sizeof path, "/proc/%d", pid);
    CHECK(access(path, F_OK) == -1 && errno == ENOENT);
}
