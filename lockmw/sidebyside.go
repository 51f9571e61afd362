package lockmw

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// mostAtOnce is how many of an operation's locks are asked for, or freed, at the same time: as many
// as share one command. However many names it has, it costs no more goroutines than that.
const mostAtOnce = 64

// sideBySide calls do for each of n, many at the same time, and waits for all. If one of them
// panics, or ends its goroutine, as an observer or a store may do, the others are called all the
// same, and unwind does it again in the caller's goroutine.
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
