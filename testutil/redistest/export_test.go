//go:build unix

package redistest

// OpenOn is Open, with first as the first port to try.
func OpenOn(first int) (*Server, error) {
	tried := false
	return open(func() (int, error) {
		if !tried {
			tried = true
			return first, nil
		}
		return freePort()
	}, nil)
}
