package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/misuse"
	"github.com/lockbeat/lockbeat/renewer"
)

// sooner is by how much a context must end before the time-out of its server:
// that began with the header of the request, and a handler's time-out of the
// same length begins later.
const sooner = 100 * time.Millisecond

// Faults reports what is set up wrongly around one handler.
type Faults struct {
	misuse.Reports

	timeout sync.Once
}

// NewFaults reports to the keeper's observer.
func NewFaults(k *renewer.Keeper) *Faults {
	return &Faults{Reports: misuse.Reports{Keeper: k, Doing: "serve HTTP"}}
}

// Misuse reports err if a mistake in the program, or in what a client sends,
// lets a request name no lock: a wildcard that the route does not have.
func (f *Faults) Misuse(r *http.Request, err error) {
	switch {
	case errors.Is(err, renewer.ErrConfig):
		f.Config(err)
	case errors.Is(err, ErrNoName), errors.Is(err, ErrLongName), errors.Is(err, ErrNoCaller):
		f.Unnamed(func() error {
			return fmt.Errorf("lockbeat: requests to the route %q are answered with 400: %w; does "+
				"the route have the wildcard, or the request the header, that it asks for?",
				r.Pattern, err)
		})
	}
}

// CheckTimeout reports a server that may give up writing to a client before its
// request has had its turn, after at most wait. The handler then runs for a
// client that has seen the connection end, and sends the request again. A
// request that has to be done before that, as in an http.TimeoutHandler, does
// not.
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
	f.First(&f.timeout, fmt.Errorf("%w: http.Server.WriteTimeout (%v) is not above what a request "+
		"on the route %q may wait (%v): "+
		"a request that has waited for so long is carried out, and not answered; let it exceed "+
		"the wait and the work, or set a shorter wait",
		renewer.ErrConfig, srv.WriteTimeout, r.Pattern, wait))
}

// types is the address where the types are explained, as RFC 9457 asks for.
const types = "https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#"

// The types of problem documents, which the docs of package httpmw explain.
const (
	TypeBusy        = types + "busy"
	TypeUnavailable = types + "unavailable"
	TypeTimeout     = types + "timeout"
	TypeLost        = types + "lost"
	TypeReplaced    = types + "replaced"
	TypeBadRequest  = types + "bad-request"
	TypeTooMany     = types + "too-many"
	TypeLimit       = types + "limit"
	TypeReused      = types + "reused"
	TypeNotKept     = types + "not-kept"
	TypeQuota       = types + "quota"
	TypeUnknown     = types + "unknown"
)

// NothingDone ends the detail of a document.
const NothingDone = " The request has not been carried out."
