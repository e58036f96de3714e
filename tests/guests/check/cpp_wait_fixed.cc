// condition_variable::wait with a predicate: it does not matter who comes first.
#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static bool ready;

static void consumer() {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [] { return ready; });
}

static void producer() {
    std::lock_guard<std::mutex> guard(lock);
    ready = true;
    changed.notify_one();
}

int main() {
    std::thread one(consumer), two(producer);
    one.join();
    two.join();
    return ready ? 0 : 1;
}
