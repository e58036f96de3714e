// Message passing by std::atomic: as a member on the heap, in an array, as a pointer.
// options: --races
#include <atomic>
#include <cassert>
#include <thread>

struct Box {
    int content = 0;
    std::atomic<bool> is_full{false};
};

static std::atomic<Box *> published;
static std::atomic<int> many[4];
static int behind;

int main() {
    Box *box = new Box;
    std::thread other([box] {
        box->content = 7;
        box->is_full.store(true, std::memory_order_release);
        behind = 7;
        many[2].store(1, std::memory_order_release);
        Box *next = new Box;
        next->content = 8;
        published.store(next, std::memory_order_release);
    });
    if (box->is_full.load(std::memory_order_acquire))
        assert(box->content == 7);
    if (many[2].load(std::memory_order_acquire))
        assert(behind == 7);
    if (Box *next = published.load(std::memory_order_acquire))
        assert(next->content == 8);
    other.join();
    delete published.load();
    delete box;
}
