package lockmw

import (
	"runtime"
	"sync"
)

// sideBySide calls do for each of n, at the same time, and waits for all. One of the
// calls may panic or end its goroutine, since it runs observers and the store. The others
// are made all the same; unwind is not nil then, and panics or exits in the same way.
func sideBySide(n int, do func(i int)) (unwind func()) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wg.Go(func() {
			over := false
			defer func() {
				if over {
					return
				}
				value := recover()
				mu.Lock()
				defer mu.Unlock()
				unwind = runtime.Goexit
				if value != nil {
					unwind = func() { panic(value) }
				}
			}()
			do(i)
			over = true
		})
	}
	wg.Wait()
	return unwind
}
