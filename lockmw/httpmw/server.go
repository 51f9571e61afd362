package httpmw

import (
	"errors"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// server is what the guards around a handler share: its settings, and where to tell of what is set
// up wrongly. That shows when the first request is there, and no caller in this process gets to see
// it: so the keeper's observer does, once.
type server struct {
	settings

	httpguard.Faults

	misuse, deadlines sync.Once
}

// refuse answers a request that was refused with err, and tells of it if no request would fare
// better.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, renewer.ErrConfig) {
		s.Tell(&s.misuse, err)
	}
	s.settings.refuse(w, r, err)
}
