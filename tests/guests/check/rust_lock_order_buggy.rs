// Two std mutexes taken in opposite order by two scoped threads.
// expect: deadlock
// min-preemptions: 1
use std::sync::Mutex;
use std::thread;

static STOCK: Mutex<i32> = Mutex::new(3);
static ORDERS: Mutex<i32> = Mutex::new(0);

fn sell() {
    let mut stock = STOCK.lock().unwrap();
    let mut orders = ORDERS.lock().unwrap();
    *stock -= 1;
    *orders += 1;
}

fn report() -> i32 {
    let orders = ORDERS.lock().unwrap();
    let stock = STOCK.lock().unwrap();
    *stock + *orders
}

fn main() {
    thread::scope(|scope| {
        scope.spawn(sell);
        scope.spawn(|| assert_eq!(report(), 3));
    });
}
