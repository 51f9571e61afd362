package httpmw

import (
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrKey means that a request does not say what to lock: a value is
// missing, or its [KeyFunc] failed. The answer is a 400.
var ErrKey = httpguard.ErrKey

// ErrBody means that a request's body can't be read or decoded. The answer is a 400, a 413 if it is
// too large, or a 408 if it came too slowly; then the error is os.ErrDeadlineExceeded, too.
var ErrBody = httpguard.ErrBody

// ErrFence means that a request's [FenceHeader] is no fencing token. The answer is a 400.
var ErrFence = errors.New("lockbeat: unusable fencing token")

// ErrTooMany means that too many requests of one client wait already ([MaxWaitersPerClient]). The
// answer is a 429.
var ErrTooMany = errors.New("lockbeat: too many requests of one client wait")

// errWildcard means that a route has no wildcard of the name that
// PathValue was given. The server is set up wrongly.
var errWildcard = fmt.Errorf("%w: unknown wildcard", renewer.ErrConfig)
