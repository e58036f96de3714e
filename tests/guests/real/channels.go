// Goroutines, buffered and unbuffered channels, select with a time limit, a wait group, a mutex, and a ticker.
package main

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"
)

func worker(jobs <-chan int, results chan<- int, group *sync.WaitGroup) {
	defer group.Done()
	for job := range jobs {
		results <- job * job
	}
}

func main() {
	runtime.GOMAXPROCS(4)
	jobs, results := make(chan int), make(chan int, 8)
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go worker(jobs, results, &group)
	}
	go func() {
		for i := 1; i <= 40; i++ {
			jobs <- i
		}
		close(jobs)
		group.Wait()
		close(results)
	}()
	var squares []int
	for square := range results {
		squares = append(squares, square)
	}
	sort.Ints(squares)
	fmt.Println(len(squares), "squares, last", squares[len(squares)-1])

	never := make(chan bool)
	select {
	case <-never:
		fmt.Println("impossible")
	case <-time.After(3 * time.Millisecond):
		fmt.Println("timed out")
	}

	var lock sync.Mutex
	counts := map[string]int{}
	var all sync.WaitGroup
	for i := 0; i < 10; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for k := 0; k < 20; k++ {
				lock.Lock()
				counts[[]string{"even", "odd"}[(i+k)%2]]++
				lock.Unlock()
				runtime.Gosched()
			}
		}(i)
	}
	all.Wait()
	fmt.Println(counts["even"], counts["odd"])

	var once sync.Once
	done := make(chan struct{})
	for i := 0; i < 3; i++ {
		go once.Do(func() { close(done) })
	}
	<-done
	ticker := time.NewTicker(time.Millisecond)
	for i := 0; i < 3; i++ {
		<-ticker.C
	}
	ticker.Stop()
	runtime.GC()
	defer func() { fmt.Println("recovered:", recover()) }()
	panic("on purpose")
}
