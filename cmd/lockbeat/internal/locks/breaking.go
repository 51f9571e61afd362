package locks

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// order are the flags of break, and the lease that it is about.
type order struct {
	inspect.Order
	yes, json bool
	wait      time.Duration
}

const breakHelp = `End a lease before its holder does. Its renewals are refused
from then on, the context of its operation ends with an error that tells who
broke it and why, and the lock is free when the operation has returned, at the
end of its TTL at the latest. So two never have it at once.

--token names the lease, as 'lockbeat show' prints it: if another is current by
then, nothing is broken. Without it the lease is shown, and you are asked.

--force frees the lock at once. It is for an operation that does not return.
Then two may run side by side, with nothing but fencing tokens between them.

--json prints {"name": "order:42", "limit": false, "token": 1795692386097520,
"by": "alice@ops", "why": "hangs", "force": false, "outcome": "held",
"after_seconds": 1.01, "ttl_seconds": 11.9, "holder": {"node": "web-1", ...}}.
outcome is free, taken (holder is who has it now) or held.

Exit status 5: you said no. 65: another lease is current. 66: no owner has it.
69: the store does not answer. 75: --wait was over, and it was not free yet. 77:
the store refuses, such as for missing rights.`

func breaking() *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:     "break NAME --why TEXT",
		Short:   "End a lease before its holder does",
		Long:    breakHelp,
		Example: "  lockbeat break order:42 --token 1795692386097520 --why 'hangs' --wait 30s",
		Args:    atMostOne,
		RunE:    o.run,

		ValidArgsFunction: completeNames,
	}
	f := cmd.Flags()
	f.Int64Var(&o.Fence, "token", 0, "the lease's fencing token `T`")
	f.StringVar(&o.Why, "why", "", "why: the holder's error and log tell it, up to 64 bytes of it")
	f.StringVar(&o.By, "by", "", "`who` you are (default user@host)")
	f.BoolVar(&o.Limit, "limit", false, "NAME is a limit: break one of its slots")
	f.BoolVar(&o.Force, "force", false, "free it at once; two may run side by side")
	f.BoolVar(&o.yes, "yes", false, "do not ask: without --token, break who has it now")
	f.DurationVar(&o.wait, "wait", 0, "wait so long until it is free, or another's")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *order) run(cmd *cobra.Command, args []string) error {
	if err := o.check(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	locks, end, err := open(ctx)
	if err != nil {
		return failed(err)
	}
	defer end()
	if o.Name, err = named(ctx, locks, o.Name); err != nil {
		return err
	}
	if o.Fence == 0 {
		if err := o.choose(cmd, locks); err != nil {
			return err
		}
	} else if o.Force {
		out.Warn(cmd.ErrOrStderr(), forceWarning)
	}
	if err := inspect.Break(ctx, locks, o.Order); err != nil {
		return o.explain(err)
	}
	return o.follow(cmd, locks)
}

const forceWarning = "by force the lock is free at once, while its holder may still work: " +
	"two may run side by side, with nothing but fencing tokens between them"

// check looks at the arguments, before anything is asked of the store.
func (o *order) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("name a lock; `lockbeat ls` lists them")
	case o.Why == "":
		return exit.Usagef("--why: is missing; say it for the holder's log")
	case o.Fence < 0 || o.Fence == 0 && cmd.Flags().Changed("token"):
		return exit.Usagef("--token: is not positive; take it from `lockbeat show`")
	case o.wait < 0:
		return exit.Usagef("--wait: is negative; take a time such as 30s")
	case o.Fence == 0 && !o.yes && !canAsk(cmd):
		return exit.Usagef("--token: is missing, and there is no terminal to ask at; " +
			"`lockbeat show` prints the token")
	}
	o.Name = args[0]
	if o.By == "" {
		o.By = whoami()
	}
	return nil
}

// canAsk reports whether a person can be shown something and answer.
func canAsk(cmd *cobra.Command) bool {
	return out.IsTerminal(cmd.InOrStdin()) && out.IsTerminal(cmd.ErrOrStderr())
}

// whoami is who runs the program, as user@host.
func whoami() string {
	name, host := os.Getenv("USER"), "unknown"
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	if name == "" {
		name = "unknown"
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// explain says what to do where nothing was broken.
func (o *order) explain(err error) error {
	failure := failed(err)
	name := out.Safe(o.Name)
	switch exit.Status(failure) {
	case exit.Free:
		return &exit.Error{Status: exit.Free, Err: fmt.Errorf("nothing was broken: %s is free%s",
			name, o.hint())}
	case exit.Stale:
		now := strings.TrimPrefix(err.Error(), inspect.ErrStale.Error()+": ")
		return &exit.Error{Status: exit.Stale, Err: fmt.Errorf("nothing was broken: %d is not the "+
			"token of %s: %s", o.Fence, name, now)}
	default:
		return failure
	}
}

// hint is about the other thing that may have the name.
func (o *order) hint() string {
	if o.Limit {
		return ", or no slot has this token; `lockbeat show --limit` prints them"
	}
	return "; of a limit, break a slot by --limit"
}

// slotOf finds the lease in what is shown; nil if it is not there.
func (o *order) slotOf(lock *store.Lock) *store.Slot {
	for i := range lock.Slots {
		if lock.Slots[i].Fence == o.Fence {
			return &lock.Slots[i]
		}
	}
	return nil
}

// current reads the lock.
func (o *order) current(ctx context.Context, locks renewer.Store) (store.Lock, error) {
	lock, err := inspect.Show(ctx, locks, o.Name, o.Limit)
	return lock, failed(err)
}
