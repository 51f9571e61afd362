//go:build unix

package redistest

// OpenOn is Open, with first as the first port to try.
func OpenOn(first int) (*Server, error) {
	tried := false
	r := plain(nil)
	r.port = func() (int, error) {
		if !tried {
			tried = true
			return first, nil
		}
		return freePort()
	}
	return open(r)
}
