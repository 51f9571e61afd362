package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// sooner is by how much a context must end before the time-out of its server: that began with the
// header of the request, and a handler's time-out of the same length begins later.
const sooner = 100 * time.Millisecond

// Faults reports what is set up wrongly around one handler. That shows when requests come, and no
// caller in this process sees it. So the keeper's observer is told, once for each kind of fault.
type Faults struct {
	Keeper *renewer.Keeper

	misuse, timeout sync.Once
	unnamed         atomic.Int64 // when the next name that no lock can have may be reported
}

// often is how long no other request is reported whose function has returned no usable name.
const often = 10 * time.Minute

// Misuse reports err if it is renewer.ErrConfig, which every request gets. It reports a function
// that returns no usable name, too, now and then: as a rule that is a mistake in the function, such
// as a wildcard that the route does not have, but clients may bring it about.
func (f *Faults) Misuse(r *http.Request, err error) {
	switch {
	case errors.Is(err, renewer.ErrConfig):
		f.Tell(&f.misuse, err)
	case !errors.Is(err, ErrNoName) && !errors.Is(err, ErrLongName) && !errors.Is(err, ErrNoCaller):
	default:
		now, next := time.Now().UnixNano(), f.unnamed.Load()
		if now >= next && f.unnamed.CompareAndSwap(next, now+int64(often)) {
			f.Keeper.Observer().Fault(renewer.Fault{Doing: "serve HTTP", Err: fmt.Errorf(
				"lockbeat: requests to the route %q are answered with 400: %w; does the "+
					"route have the wildcard, or the request the header, that it asks for?",
				r.Pattern, err)})
		}
	}
}

// CheckTimeout reports a server that may give up writing to a client before
// its request has had its turn, after at most wait. The handler then runs for
// a client that has seen the connection end, and sends the request again. A
// request that has to be done before that, as in an http.TimeoutHandler, does not.
func (f *Faults) CheckTimeout(r *http.Request, wait time.Duration) {
	if wait == 0 {
		return
	}
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if srv == nil || srv.WriteTimeout <= 0 || srv.WriteTimeout > wait {
		return
	}
	if end, ok := r.Context().Deadline(); ok && time.Until(end)+sooner < srv.WriteTimeout {
		return
	}
	f.Tell(&f.timeout, fmt.Errorf("%w: http.Server.WriteTimeout (%v) is not above what a request "+
		"on the route %q may wait (%v): "+
		"a request that has waited for so long is carried out, and not answered; let it exceed "+
		"the wait and the work, or set a shorter wait",
		renewer.ErrConfig, srv.WriteTimeout, r.Pattern, wait))
}

// Tell reports a fault unless first has been used before.
func (f *Faults) Tell(first *sync.Once, err error) {
	first.Do(func() { f.Keeper.Observer().Fault(renewer.Fault{Doing: "serve HTTP", Err: err}) })
}
