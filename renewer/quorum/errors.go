package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrMixed means that programs use the same servers for quorums of different
// nodes, or different [Forgetful]: two of them could hold a lock at once. It
// comes with [renewer.ErrConfig] from [New] and [Store.Check], and with
// [renewer.ErrRejected] from Acquire, which grants nothing until it is mended.
var ErrMixed = errors.New("quorum: programs differ in their nodes")

var (
	errBarred  = errors.New("not asked: an earlier attempt is still being freed there")
	errSilent  = errors.New("no answer yet")
	errStrange = errors.New("it answered what no store may")
	errCounter = fmt.Errorf("%w: its fence counter is at %d, so that no token can be above it; "+
		"delete it", renewer.ErrRejected, int64(math.MaxInt64))
)

// unreachable is why nobody knows: too many nodes could not be asked.
type unreachable struct {
	op       string
	nodes    int
	needed   int
	refused  int // nodes that said no to a renewal or a release
	failed   []nodeError
	rejected bool  // however often they are asked
	err      error // the caller's own, if its time was up
}

type nodeError struct {
	node string
	err  error
}

func (e *unreachable) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quorum: %s: %d of %d nodes gave no answer", e.op, len(e.failed), e.nodes)
	if e.refused > 0 {
		fmt.Fprintf(&b, " and %d have not got the lease", e.refused)
	}
	fmt.Fprintf(&b, ", %d must agree", e.needed)
	for i, f := range e.failed {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %v", sep, f.node, f.err)
	}
	return b.String()
}

// Is finds renewer.ErrRejected only if waiting can't help: one node
// that refuses does not make the quorum do so.
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

// unreachable makes the error from the nodes' own; nil ones have answered.
func (s *Store) unreachable(
	ctx context.Context, op string, needed, refused int, errs []error,
) error {
	e := &unreachable{op: op, nodes: len(s.nodes), needed: needed, refused: refused, err: ctx.Err()}
	rejected := 0
	for x, err := range errs {
		if err == nil {
			continue
		}
		if errors.Is(err, errSilent) && e.err != nil {
			err = e.err // which is why
		}
		if errors.Is(err, renewer.ErrRejected) {
			rejected++
		}
		e.failed = append(e.failed, nodeError{s.nodes[x].name, err})
	}
	e.rejected = rejected > len(s.nodes)-e.needed
	return e
}

// grantErrors are the errors of those votes that tell nothing.
func grantErrors(votes []*renewer.Grant) []error {
	errs := make([]error, len(votes))
	for x, g := range votes {
		switch {
		case g == nil:
			errs[x] = errSilent
		case g.Status == renewer.StatusUnknown:
			errs[x] = orStrange(g.Err)
		}
	}
	return errs
}

func orStrange(err error) error {
	if err == nil {
		return errStrange
	}
	return err
}

// nodeName is what errors call a node.
func nodeName(names []string, i int) string {
	name := "node " + strconv.Itoa(i+1)
	if len(names) > i {
		name += " (" + names[i] + ")"
	}
	return name
}
