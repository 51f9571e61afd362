package locks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// choose finds the lease that is current where no token was given, and asks
// whether to break it.
func (o *order) choose(cmd *cobra.Command, locks renewer.Store) error {
	lock, err := o.current(cmd.Context(), locks)
	if err != nil {
		return err
	}
	w := cmd.ErrOrStderr()
	switch {
	case lock.Foreign:
		return &exit.Error{Status: exit.Stale, Err: fmt.Errorf("nothing was broken: %s is %s",
			out.Safe(o.Name), sentence(&lock))}
	case len(lock.Slots) == 0:
		return o.explain(inspect.ErrFree)
	case len(lock.Slots) > 1:
		_ = slots(&lock).Write(w, out.Columns(w))
		return exit.Usagef("--token: is missing, and %d have a slot; take the token of one",
			len(lock.Slots))
	}
	o.Fence = lock.Slots[0].Fence
	if o.Force {
		out.Warn(cmd.ErrOrStderr(), forceWarning)
	}
	if o.yes {
		return nil
	}
	return ask(cmd, w, &lock)
}

// ask shows a lock, and returns an error unless the answer is yes.
func ask(cmd *cobra.Command, w io.Writer, lock *store.Lock) error {
	_, _ = fmt.Fprintf(w, "%s\nBreak it? [y/N] ", describe(lock, nil))
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		_, _ = fmt.Fprintln(w)
	}
	return &exit.Error{Status: exit.Declined, Err: errors.New("nothing was broken")}
}
