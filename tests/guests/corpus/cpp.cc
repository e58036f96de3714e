// The same classes in C++: called with the name of a program and `bad` or `fine`.
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <shared_mutex>
#include <thread>

static bool bad;

template <class... Bodies> static void together(Bodies... bodies) {
    std::thread threads[] = {std::thread(bodies)...};
    for (auto &thread : threads) thread.join();
}

// A value that is asked for and then taken.
static void check_then_act() {
    std::mutex lock;
    std::queue<int> queue;
    queue.push(1);
    auto take = [&] {
        if (bad) {
            bool is_empty;
            { std::lock_guard guard(lock); is_empty = queue.empty(); }
            if (is_empty) return;
            std::lock_guard guard(lock);
            assert(!queue.empty());
            queue.pop();
        } else {
            std::lock_guard guard(lock);
            if (!queue.empty()) queue.pop();
        }
    };
    together(take, take);
}

// Waiting for what is needed, or not.
static void condition() {
    std::mutex lock;
    std::condition_variable changed;
    bool ready = false;
    int value = 0;
    together(
        [&] { { std::lock_guard guard(lock); value = 1, ready = true; } changed.notify_one(); },
        [&] {
            std::unique_lock guard(lock);
            if (!bad) changed.wait(guard, [&] { return ready; });
            assert(value == 1);
        });
}

// A flag and what it stands for, by atomics.
static void publish() {
    std::atomic<int> data{0}, flag{0};
    together(
        [&] {
            if (bad) flag.store(1, std::memory_order_release), data.store(42, std::memory_order_release);
            else data.store(42, std::memory_order_release), flag.store(1, std::memory_order_release);
        },
        [&] { if (flag.load(std::memory_order_acquire)) assert(data.load(std::memory_order_acquire) == 42); });
}

// A shared pointer that is read while another thread puts a new one there.
static void configuration() {
    std::mutex lock;
    auto current = std::make_shared<int>(1);
    std::atomic<int> sum{0};
    together(
        [&] { std::lock_guard guard(lock); current = std::make_shared<int>(2); },
        [&] {
            std::shared_ptr<int> first, second;
            { std::lock_guard guard(lock); first = current; }
            { std::lock_guard guard(lock); second = bad ? current : first; }
            assert(*first == *second);
        });
}

// Writers that take a lock for readers.
static void shared_lock() {
    std::shared_mutex lock;
    std::atomic<int> inside{0};
    auto write = [&] {
        std::shared_lock<std::shared_mutex> weak(lock, std::defer_lock);
        std::unique_lock<std::shared_mutex> strong(lock, std::defer_lock);
        if (bad) weak.lock(); else strong.lock();
        assert(inside.fetch_add(1) == 0);
        inside.fetch_sub(1);
    };
    together(write, write);
}

// The result of a task, and whether it was waited for.
static void result() {
    std::atomic<int> value{0};
    auto task = std::async(std::launch::async, [&] { value = 7; return 1; });
    if (!bad) task.wait();
    assert(value == 7);
}

// Two locks, in one order or at once.
static void both_locks() {
    std::mutex one, two;
    together(
        [&] { if (bad) { std::lock_guard a(one); std::lock_guard b(two); } else std::scoped_lock both(one, two); },
        [&] { if (bad) { std::lock_guard b(two); std::lock_guard a(one); } else std::scoped_lock both(two, one); });
}

// Something made once.
static void once() {
    std::once_flag flag;
    std::atomic<bool> made{false};
    std::atomic<int> times{0};
    auto get = [&] {
        if (bad) { if (!made) times++, made = true; }
        else std::call_once(flag, [&] { times++; });
    };
    together(get, get);
    assert(times == 1);
}

// A variable that is made when it is first asked for: the compiler sees to it that one thread makes it, and that others see it made.
struct settings { int value; settings() : value(0) { for (int i = 0; i < 3; i++) value++; } };
static settings &made_by_hand() {
    static char memory[sizeof(settings)];
    static bool is_made;
    if (!is_made) new (memory) settings, is_made = true;
    return *reinterpret_cast<settings *>(memory);
}
static settings &made_once() { static settings made; return made; }
static void local_static() {
    auto use = [] { assert((bad ? made_by_hand() : made_once()).value <= 3); };
    together(use, use);
}

int main(int argc, char **argv) {
    const struct { const char *name; void (*run)(); } programs[] = {
        {"check_then_act", check_then_act}, {"condition", condition}, {"publish", publish}, {"configuration", configuration},
        {"shared_lock", shared_lock}, {"result", result}, {"both_locks", both_locks}, {"once", once},
        {"local_static", local_static}};
    if (argc != 3) return 64;
    bad = std::strcmp(argv[2], "bad") == 0;
    for (auto &program : programs)
        if (std::strcmp(program.name, argv[1]) == 0) return program.run(), 0;
    return 64;
}
