//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/guard"
	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

// running is a command under its lock.
type running struct {
	options
	lock    *lock
	begun   time.Time // the command; zero if it has not
	guard   *guard.Guard
	look    time.Duration  // at the command's processes; see [running.ahead]
	last    guard.Deadline // that the guard was told
	skipped bool           // another had the lock, and nothing was done
	lost    bool           // the lock was, and the command was ended for it
	stderr  io.Writer
}

// run takes the lock and runs a command under it.
func run(parent context.Context, o options, args []string, stderr io.Writer) error {
	r := running{options: o, stderr: stderr}
	err := r.run(parent, args)
	if r.lock == nil { // else it is recorded already
		r.recordEnd(err)
	}
	return err
}

func (r *running) run(parent context.Context, args []string) error {
	path, err := find(args[0])
	if err != nil {
		return err
	}
	signals, stop := guard.Catch(passed...)
	defer stop()
	ctx, stop := untilSignal(parent, signals)
	l, err := r.take(ctx, args[0])
	stop()
	if e := interrupted(ctx); e != nil {
		if err == nil {
			_ = l.release(r.options) // it lapses otherwise
			l.close(r.options)
		}
		return e
	}
	if r.skip && errors.Is(err, renewer.ErrBusy) {
		r.skipped = true
		r.explain("skipped: %s", r.whoHas(err))
		return nil
	}
	if err != nil {
		return err
	}
	r.lock = l
	err = r.command(path, args, signals)
	kept := r.keep()
	r.recordEnd(err) // before another process of this machine begins with the file
	if e := l.release(r.options); e != nil && exit.Status(err) != exit.Lost {
		r.warn(e.Error())
	} else if e == nil {
		r.tellFreed(kept)
	}
	l.close(r.options)
	return err
}

// find returns the file that a command's name means, as a shell does.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot): // a PATH that has "." in it means it
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", &exit.Error{Status: exit.CannotRun, Err: err}
	default:
		return "", &exit.Error{Status: exit.NotFound, Err: err}
	}
}

// command runs the command, and returns when no process of it is left.
func (r *running) command(path string, args []string, signals <-chan os.Signal) error {
	lost := make(chan struct{})
	defer r.lock.lease.OnLoss(func() { close(lost) })()
	r.begun = time.Now()
	r.recordStart() // before the deadline is read: a disk may be slow
	deadline, held := r.deadline()
	if !held {
		return r.lostError()
	}
	r.last = deadline
	var err error
	r.guard, err = guard.Start(guard.Command{
		Path: path, Args: args, Grace: r.grace, Env: r.environment(),
	}, deadline, r.warn)
	if err != nil {
		return &exit.Error{Status: exit.System, Err: err}
	}
	r.supervise(signals, lost)
	return r.outcome(args[0], r.guard.Result())
}

// environment is what the command has beside or in place of our environment:
// the password is not the business of a command, nor of its children and crash
// reports.
func (r *running) environment() []string {
	env := []string{
		"LOCKBEAT_NAME=" + r.name,
		"LOCKBEAT_FENCE=" + strconv.FormatInt(r.lock.lease.Fence(), 10),
	}
	url := os.Getenv(deployment.URLVariable)
	if !r.keepPassword && deployment.HasPassword(url) {
		env = append(env, deployment.URLVariable+"="+deployment.WithoutPassword(url))
	}
	return env
}

// keep has the lock held for what is left of --at-least, by no process, if the
// command has run: also if it has failed, since it may have done a part of its
// work. If it could not be started, another node may try.
func (r *running) keep() (kept time.Duration) {
	if r.guard != nil && r.guard.Result().Failed == "" {
		kept = max(r.atLeast-time.Since(r.begun), 0)
		r.lock.lease.HoldAtLeast(kept)
	}
	return kept
}

// supervise tells the guard what it has to know, until nothing is left of the
// command.
func (r *running) supervise(signals <-chan os.Signal, lost <-chan struct{}) {
	looked := make(chan time.Duration, 1)
	look := func() { looked <- r.guard.Look() }
	looking := true
	go look()
	for {
		select {
		case <-r.lock.pulse.beats:
			r.renew()
			if !looking { // it takes long on a busy machine
				looking = true
				go look()
			}
		case took := <-looked:
			looking = false
			r.look = max(took, r.look/2)
			r.renew()
		case s := <-signals:
			r.guard.Forward(s.(syscall.Signal)) //nolint:forcetypeassert // on Unix it is one
		case <-lost:
			lost = nil
			r.tellLoss()
			r.guard.Renew(r.end())
		case <-r.guard.Done():
			select {
			case <-lost: // at the same time, on a busy machine
				r.tellLoss()
			default:
			}
			return
		}
	}
}

func (r *running) tellLoss() {
	r.tell("%s; the command is being ended", trimmed{r.lock.lease.Err()})
}

// renew tells the guard until when the command may run from now on.
func (r *running) renew() {
	if deadline, held := r.deadline(); held {
		r.last = deadline
		r.guard.Renew(deadline)
	}
}

// deadline is until when the command may run, and whether the lease is held.
// The clock is read first: whatever happens between the two makes the deadline
// earlier than it might be.
func (r *running) deadline() (d guard.Deadline, held bool) {
	now := guard.Now()
	left := r.lock.lease.Remaining()
	ahead := r.ahead()
	d.Term = now.Add(left - ahead)
	d.Kill = d.Term.Add(r.grace)
	d.Late = d.Kill.Add((r.reserve() + ahead) / 4)
	return d, left > 0
}

// looks is how many looks at the command's processes the reserve has room for:
// two for the guard before the wrapper takes over, which needs one to kill what
// there is, one to kill what was started meanwhile, and as long again for all
// to die.
const looks = 8

// ahead is how much earlier than the options say the command is asked to end,
// on a machine so busy that the reserve would be too short. It has a bound,
// lest a command be ended although its lease is renewed in time.
func (r *running) ahead() time.Duration {
	return min(max(0, looks*r.look-r.reserve()), (r.ttl-r.margin())/4)
}

// end is the deadline of a command whose lease is lost: now. If the store has
// said that the lease is over, another may have it already, and there is no
// grace.
func (r *running) end() guard.Deadline {
	d := r.last
	d.Term = guard.Now()
	lost, ok := errors.AsType[*renewer.LostError](r.lock.lease.Err())
	if !ok || lost.Left == 0 {
		d.Kill, d.Late = d.Term, d.Term.Add(r.reserve()/4)
	}
	return d
}

// outcome is the error for what became of the command.
func (r *running) outcome(name string, result guard.Result) error {
	// By the clock: after a stop nothing may have been told yet.
	lost := !r.lock.lease.Valid() || guard.Now() >= r.last.Term
	switch {
	case result.Failed != "":
		status := exit.CannotRun
		if result.Errno == syscall.ENOENT {
			status = exit.NotFound
		}
		return &exit.Error{Status: status, Err: fmt.Errorf("%s: %s", name, result.Failed)}
	case result.Cut && (lost || !result.Died):
		return r.lostError()
	case result.Died:
		return &exit.Error{Status: exit.Internal, Err: errors.New("the guard of the command " +
			"was killed or stopped, so the command was ended")}
	case result.Status != 0:
		return &exit.Error{Status: result.Status}
	default:
		return nil
	}
}

// lostError is the error of a command that was ended because the lock was lost.
func (r *running) lostError() error {
	r.lost = true
	err := r.lock.lease.Err()
	if err == nil { // this process was stopped, and the guard was faster
		err = errors.New("the lock was not renewed in time")
	}
	return &exit.Error{
		Status: exit.Lost, Err: fmt.Errorf("the command was ended: %w", trimmed{err}),
	}
}

// trimmed is an error without the prefix that the program's own messages have.
type trimmed struct{ error }

func (e trimmed) Error() string { return strings.TrimPrefix(e.error.Error(), "lockbeat: ") }
func (e trimmed) Unwrap() error { return e.error }
