// Package quota bounds how much each of many callers may have at once.
package quota

import "sync"

// Each counts what callers have, each up to a bound of its own. Callers that
// have nothing take no memory. It may be used concurrently.
type Each struct {
	most int

	mu  sync.Mutex
	has map[string]int
}

// New returns an Each by which a caller may have most at once, which is at
// least 1.
func New(most int) *Each { return &Each{most: most, has: make(map[string]int)} }

// Take counts one more for a caller, and reports whether it may have that. If
// so, [Each.Give] must follow.
func (e *Each) Take(caller string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.has[caller] >= e.most {
		return false
	}
	e.has[caller]++
	return true
}

// Give counts one less.
func (e *Each) Give(caller string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.has[caller]--
	if e.has[caller] <= 0 {
		delete(e.has, caller)
	}
}
