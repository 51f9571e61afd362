package httpmw

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/felixge/httpsnoop"
)

// track returns w with the same optional interfaces, and whether anything of
// the answer has been written to it. A connection that the handler has taken
// over counts as written.
func track(w http.ResponseWriter) (http.ResponseWriter, *atomic.Bool) {
	wrote := new(atomic.Bool)
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				// Other codes below 200 announce an answer, and are none.
				if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
					wrote.Store(true)
				}
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) {
				wrote.Store(true)
				return next(p)
			}
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) {
				wrote.Store(true)
				return next(s)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				wrote.Store(true)
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				wrote.Store(true)
				next()
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				wrote.Store(true)
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buffered, err := next()
				if err == nil {
					wrote.Store(true)
				}
				return conn, buffered, err
			}
		},
	}), wrote
}
