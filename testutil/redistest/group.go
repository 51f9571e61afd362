package redistest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// openAll starts several servers at the same time: all of them, or none.
func openAll(recipes []recipe) ([]*Server, error) {
	servers, errs := make([]*Server, len(recipes)), make([]error, len(recipes))
	var wg sync.WaitGroup
	for i, r := range recipes {
		wg.Go(func() { servers[i], errs[i] = open(r) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, s := range servers {
			if s != nil {
				err = errors.Join(err, s.Close())
			}
		}
		return nil, err
	}
	return servers, nil
}

// closeAll closes servers after something went wrong, and returns that.
func closeAll(servers []*Server, err error) error {
	for _, s := range servers {
		err = errors.Join(fmt.Errorf("%w\n%s: %s", err, s.Addr(), s.Log()), s.Close())
	}
	return err
}

// await polls until a condition holds.
func await(what string, holds func() (bool, error)) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	poll := time.NewTicker(2 * pollEvery)
	defer poll.Stop()
	for {
		ok, err := holds()
		if ok && err == nil {
			return nil
		}
		select {
		case <-timeout.C:
			return fmt.Errorf("redistest: not within %v: %s (%w)", startTimeout, what,
				errors.Join(errLate, err))
		case <-poll.C:
		}
	}
}

var errLate = errors.New("too late")

// info reads the fields of a server's INFO, or of another command that answers
// in the same form.
func (s *Server) info(command ...string) (map[string]string, error) {
	text, err := s.Do(command...).ToString()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	// the format, of a verbatim string
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// do sends a command that must succeed.
func (s *Server) do(args ...string) error {
	if err := s.Do(args...).Error(); err != nil {
		return fmt.Errorf("redistest: %s on %s: %w", strings.Join(args[:min(3, len(args))], " "),
			s.Addr(), err)
	}
	return nil
}
