package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{list(), show(), top(), breaking()}
}

// open connects to the store. The caller calls end when it needs it no more.
func open(ctx context.Context) (locks renewer.Store, end func(), err error) {
	s, err := connect.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// failed gives an error of the store its exit status.
func failed(err error) error {
	status := exit.Status(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, inspect.ErrFree):
		status = exit.Free
	case errors.Is(err, inspect.ErrStale):
		status = exit.Stale
	case status == exit.Unavailable:
		err = fmt.Errorf("%w; `lockbeat doctor` looks for the reason", err)
	}
	return &exit.Error{Status: status, Err: err}
}

// read reads all locks that want chooses. Behind an error it returns those that
// it has read.
func read(ctx context.Context, locks renewer.Store, want inspect.Filter) ([]store.Lock, error) {
	var all []store.Lock
	for lock, err := range inspect.List(ctx, locks, want) {
		if err != nil {
			return all, failed(err)
		}
		all = append(all, lock)
	}
	return all, nil
}

// pattern is a command's argument that chooses names; nil without one.
func pattern(args []string) inspect.Filter {
	if len(args) == 0 {
		return nil
	}
	return inspect.Match(args[0])
}

// atMostOne refuses a second argument, which is mostly the shell's doing.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%q is one argument too many: quote a name with spaces, and a "+
			"pattern, so that the shell leaves it alone", args[1])
	}
	return nil
}
