package lockmw

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// mostAtOnce is how many of an operation's locks are asked for, or freed, at the same time: as many
// as share one command. However many names it has, it costs no more goroutines than that.
const mostAtOnce = 64

// sideBySide calls do for each of n, many at the same time, and waits for all. One of the
// calls may panic or end its goroutine, since it runs observers and the store. The others
// are made all the same; unwind is not nil then, and panics or exits in the same way.
func sideBySide(n int, do func(i int)) (unwind func()) {
	var wg sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var work func()
	work = func() {
		over := false
		defer func() {
			if over {
				return
			}
			value := recover()
			mu.Lock()
			unwind = runtime.Goexit
			if value != nil {
				unwind = func() { panic(value) }
			}
			mu.Unlock()
			wg.Go(work) // in place of this goroutine
		}()
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			do(int(i - 1))
		}
		over = true
	}
	for range min(n, mostAtOnce) {
		wg.Go(work)
	}
	wg.Wait()
	return unwind
}
