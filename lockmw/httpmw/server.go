package httpmw

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// server is what the guards around a handler share: its settings, and where to tell of what is set
// up wrongly. That shows when the first request is there, and no caller in this process gets to see
// it: so the keeper's observer does, once.
type server struct {
	settings

	keeper                     *renewer.Keeper
	misuse, timeout, deadlines sync.Once
}

// refuse answers a request that was refused with err, and tells of it if no request would fare
// better.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, renewer.ErrConfig) {
		s.tell(&s.misuse, err)
	}
	s.settings.refuse(w, r, err)
}

// checkTimeout tells of a server that may give up writing to a client before its request has had
// its turn, after at most wait. Its handler runs all the same, for a client that sees the
// connection end, and sends the request again.
func (s *server) checkTimeout(r *http.Request, wait time.Duration) {
	if wait == 0 {
		return
	}
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if srv == nil || srv.WriteTimeout <= 0 || srv.WriteTimeout > wait {
		return
	}
	s.tell(&s.timeout, fmt.Errorf("%w: http.Server.WriteTimeout (%v) is not above what a request "+
		"on the route %q may wait (%v): "+
		"who has waited for so long is carried out, and not answered; let it exceed the wait and "+
		"the work, or set a shorter httpmw.Wait",
		renewer.ErrConfig, srv.WriteTimeout, r.Pattern, wait))
}

func (s *server) tell(first *sync.Once, err error) {
	if o := s.keeper.Config().Observer; o != nil {
		first.Do(func() { o.Fault(renewer.Fault{Doing: "serve HTTP", Err: err}) })
	}
}
