package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrMixed means that programs use the same servers for quorums of different
// nodes: two of them could hold a lock at once. It comes with
// [renewer.ErrConfig] from [New], alone from [Store.Check], and with
// [renewer.ErrRejected] from Acquire, which grants nothing until all programs
// agree.
var ErrMixed = errors.New("quorum: programs differ in their nodes")

var (
	errBarred  = errors.New("not asked: an earlier attempt is still being freed there")
	errSilent  = errors.New("no answer yet")
	errStrange = errors.New("it gave an answer that no store may give")
	errCounter = fmt.Errorf("%w: its fence counter is at %d, so that no token can be above it; "+
		"delete it", renewer.ErrRejected, int64(math.MaxInt64))
)

// unreachable means that too many nodes gave no answer to decide anything.
type unreachable struct {
	op       string
	count    majority
	failed   []nodeError
	rejected bool  // waiting does not help: so many nodes reject every attempt
	err      error // the caller's own, if its time was up
}

type nodeError struct {
	node string
	err  error
}

func (e *unreachable) Error() string { return e.text(error.Error) }

// Nameless is Error without the names of locks: see [renewer.ErrorText].
func (e *unreachable) Nameless() string { return e.text(renewer.ErrorText) }

func (e *unreachable) text(textOf func(error) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quorum: %s: %d of %d nodes gave no answer", e.op, len(e.failed), e.count.nodes)
	if refused := e.count.taken + e.count.gone; refused > 0 {
		fmt.Fprintf(&b, " and %d have not got the lease", refused)
	}
	fmt.Fprintf(&b, ", %d must agree", e.count.needed())
	for i, f := range e.failed {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, f.node, textOf(f.err))
	}
	return b.String()
}

// Is finds renewer.ErrRejected only if waiting can't help: the quorum does not
// reject a request because one node does.
func (e *unreachable) Is(target error) bool {
	if target == renewer.ErrRejected {
		return e.rejected
	}
	if errors.Is(e.err, target) {
		return true
	}
	for _, f := range e.failed {
		// The end of a node's request is not that of the caller.
		if target != context.Canceled && target != context.DeadlineExceeded &&
			errors.Is(f.err, target) {
			return true
		}
	}
	return false
}

// As finds the nodes' errors, the first that fits.
func (e *unreachable) As(target any) bool {
	for _, f := range e.failed {
		if errors.As(f.err, target) {
			return true
		}
	}
	return false
}

// newUnreachable makes the error from the nodes' own; a node whose error is nil
// has answered.
func newUnreachable(
	ctx context.Context, op string, nodes *nodeSet, count majority, errs []error,
) error {
	e := &unreachable{op: op, count: count, err: ctx.Err()}
	rejecting := majority{nodes: count.nodes}
	for x, err := range errs {
		if err == nil {
			continue
		}
		if errors.Is(err, errSilent) && e.err != nil {
			err = e.err // which is why
		}
		if errors.Is(err, renewer.ErrRejected) {
			rejecting.count(store.StatusUnknown)
		}
		e.failed = append(e.failed, nodeError{nodes.all[x].name, err})
	}
	e.rejected = rejecting.unavailable()
	return e
}

func orStrange(err error) error {
	if err == nil {
		return errStrange
	}
	return err
}
