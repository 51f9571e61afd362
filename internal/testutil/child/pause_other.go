//go:build !unix

package child

import "errors"

var errNoPause = errors.New("processes can't be paused on this system")

// Pause is an error here.
func (*Process) Pause() error { return errNoPause }

// Resume is an error here.
func (*Process) Resume() error { return errNoPause }
