// A session is shared by those who use it: it goes away with the last of them.
// options: --races
#include <map>
#include <memory>
#include <mutex>
#include <thread>

struct Session {
    std::mutex lock;
    int requests = 0;
};

static std::mutex lock;
static std::map<int, std::shared_ptr<Session>> sessions;

static std::shared_ptr<Session> find(int id) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = sessions.find(id);
    return found == sessions.end() ? nullptr : found->second;
}

static void serve() {
    if (std::shared_ptr<Session> session = find(1)) {
        std::lock_guard<std::mutex> guard(session->lock);
        session->requests++;
    }
}

static void expire() {
    std::lock_guard<std::mutex> guard(lock);
    sessions.erase(1);
}

int main() {
    sessions[1] = std::make_shared<Session>();
    std::thread one(serve), two(expire);
    one.join();
    two.join();
}
