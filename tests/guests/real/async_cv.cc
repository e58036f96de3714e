// std::async, futures, condition_variable, call_once, shared_mutex and an exception that crosses threads.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <numeric>
#include <queue>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

template <class T> class Queue {
    std::mutex lock;
    std::condition_variable changed;
    std::queue<T> items;
    bool closed = false;

public:
    void push(T item) {
        { std::lock_guard<std::mutex> guard(lock); items.push(std::move(item)); }
        changed.notify_one();
    }
    void close() {
        { std::lock_guard<std::mutex> guard(lock); closed = true; }
        changed.notify_all();
    }
    bool pop(T &into) {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [this] { return closed || !items.empty(); });
        if (items.empty()) return false;
        into = std::move(items.front());
        items.pop();
        return true;
    }
};

int main() {
    std::vector<std::future<long>> sums;
    for (int part = 0; part < 4; part++)
        sums.push_back(std::async(std::launch::async, [part] {
            std::vector<long> numbers(1000);
            std::iota(numbers.begin(), numbers.end(), part * 1000);
            return std::accumulate(numbers.begin(), numbers.end(), 0L);
        }));
    long total = 0;
    for (auto &sum : sums) total += sum.get();
    std::cout << "total " << total << "\n";

    Queue<std::string> queue;
    std::map<std::string, int> counts;
    std::shared_mutex counts_lock;
    std::vector<std::thread> consumers;
    for (int i = 0; i < 3; i++)
        consumers.emplace_back([&] {
            for (std::string word; queue.pop(word);) {
                std::unique_lock<std::shared_mutex> guard(counts_lock);
                counts[word]++;
            }
        });
    for (int i = 0; i < 30; i++) queue.push(i % 3 == 0 ? "fizz" : i % 5 == 0 ? "buzz" : "plain");
    queue.close();
    for (auto &consumer : consumers) consumer.join();
    for (auto &[word, count] : counts) std::cout << word << " " << count << "\n";

    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("from another thread"); });
    try {
        failing.get();
    } catch (const std::exception &error) {
        std::cout << "caught: " << error.what() << "\n";
    }
    std::promise<int> promise;
    auto future = promise.get_future();
    std::cout << "not ready: " << (future.wait_for(std::chrono::milliseconds(2)) == std::future_status::timeout) << "\n";
    std::thread([&promise] { promise.set_value(42); }).detach();
    std::cout << "promised " << future.get() << std::endl;
}
