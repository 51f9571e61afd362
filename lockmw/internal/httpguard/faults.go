package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
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
}

// Misuse reports err if it is renewer.ErrConfig, which every request gets.
func (f *Faults) Misuse(err error) {
	if errors.Is(err, renewer.ErrConfig) {
		f.Tell(&f.misuse, err)
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
	if o := f.Keeper.Config().Observer; o != nil {
		first.Do(func() { o.Fault(renewer.Fault{Doing: "serve HTTP", Err: err}) })
	}
}
