# Threads, a queue, an event, a condition, a semaphore, a thread pool, and a timer.
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

jobs, results = queue.Queue(maxsize=4), queue.Queue()


def worker():
    while (job := jobs.get()) is not None:
        results.put((job, sum(range(job))))
        jobs.task_done()


threads = [threading.Thread(target=worker, name=f"worker-{i}") for i in range(4)]
for thread in threads:
    thread.start()
for job in range(50):
    jobs.put(job)
jobs.join()
for _ in threads:
    jobs.put(None)
for thread in threads:
    thread.join()
print(sorted(results.queue)[-3:])

event, seen = threading.Event(), []
timer = threading.Timer(0.002, event.set)
timer.start()
print("set" if event.wait(60) else "timed out")
timer.join()

condition, turn = threading.Condition(), 0


def take_turn(me):
    global turn
    with condition:
        condition.wait_for(lambda: turn == me)
        seen.append(me)
        turn += 1
        condition.notify_all()


players = [threading.Thread(target=take_turn, args=(i,)) for i in reversed(range(5))]
for player in players:
    player.start()
for player in players:
    player.join()
print(seen)

with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(lambda x: x**2, range(10))))
before = time.monotonic()
time.sleep(0.003)
assert time.monotonic() - before >= 0.003
local = threading.local()
local.value = "main"
with open("written", "w") as file:
    file.write(local.value + "\n")
print("done")
