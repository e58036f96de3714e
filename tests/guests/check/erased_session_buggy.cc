// A session is looked up under the lock and used after that, while another thread erases it: the memory may be gone by then.
// expect: use-after-free
// min-preemptions: 1
#include <map>
#include <mutex>
#include <thread>

struct Session {
    int requests = 0;
};

static std::mutex lock;
static std::map<int, Session *> sessions;

static Session *find(int id) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = sessions.find(id);
    return found == sessions.end() ? nullptr : found->second;
}

static void serve() {
    if (Session *session = find(1))
        session->requests++;
}

static void expire() {
    std::lock_guard<std::mutex> guard(lock);
    auto found = sessions.find(1);
    delete found->second;
    sessions.erase(found);
}

int main() {
    sessions[1] = new Session;
    std::thread one(serve), two(expire);
    one.join();
    two.join();
}
