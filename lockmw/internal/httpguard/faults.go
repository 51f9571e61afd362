package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Faults tells of what is set up wrongly around a handler. That shows when the first request is
// there, and no caller in this process gets to see it: so the keeper's observer does, once.
type Faults struct {
	Keeper *renewer.Keeper

	misuse, timeout sync.Once
}

// Misuse tells of an error that no request will fare better with.
func (f *Faults) Misuse(err error) {
	if errors.Is(err, renewer.ErrConfig) {
		f.Tell(&f.misuse, err)
	}
}

// CheckTimeout tells of a server that may give up writing to a client before its request has had
// its turn, after at most wait. Its handler runs all the same, for a client that sees the
// connection end, and sends the request again.
func (f *Faults) CheckTimeout(r *http.Request, wait time.Duration) {
	if wait == 0 {
		return
	}
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if srv == nil || srv.WriteTimeout <= 0 || srv.WriteTimeout > wait {
		return
	}
	f.Tell(&f.timeout, fmt.Errorf("%w: http.Server.WriteTimeout (%v) is not above what a request "+
		"on the route %q may wait (%v): "+
		"who has waited for so long is carried out, and not answered; let it exceed the wait and "+
		"the work, or set a shorter httpmw.Wait",
		renewer.ErrConfig, srv.WriteTimeout, r.Pattern, wait))
}

// Tell tells of a fault unless first says that it has been told.
func (f *Faults) Tell(first *sync.Once, err error) {
	if o := f.Keeper.Config().Observer; o != nil {
		first.Do(func() { o.Fault(renewer.Fault{Doing: "serve HTTP", Err: err}) })
	}
}
