// Package misuse reports what is set up wrongly around handlers. That shows
// when requests come, and no caller in this process sees it: so the keeper's
// observer is told, seldom.
package misuse

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// often is how long no other request is reported that names no lock.
const often = 10 * time.Minute

// Reports are those about one handler.
type Reports struct {
	Keeper *renewer.Keeper
	Doing  string // of the faults

	config  sync.Once
	unnamed atomic.Int64 // when the next request that names no lock may be reported
}

// Config reports a mistake in the program, which every request runs into: the
// first.
func (r *Reports) Config(err error) { r.First(&r.config, err) }

// First reports an error unless first has been used before.
func (r *Reports) First(first *sync.Once, err error) { first.Do(func() { r.tell(err) }) }

// Unnamed reports a request that names no lock, or not in a usable form, now
// and then: as a rule that is a mistake in the function that names it, but
// clients may bring it about.
func (r *Reports) Unnamed(err func() error) {
	now, next := time.Now().UnixNano(), r.unnamed.Load()
	if now >= next && r.unnamed.CompareAndSwap(next, now+int64(often)) {
		r.tell(err())
	}
}

func (r *Reports) tell(err error) {
	r.Keeper.Observer().Fault(renewer.Fault{Doing: r.Doing, Err: err})
}
