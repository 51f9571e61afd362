package history

import (
	"fmt"
	"iter"
	"time"

	"github.com/anishathalye/porcupine"
)

// modelTime bounds the search for an order of one name's operations.
const modelTime = 20 * time.Second

// step is an operation on a lock: its owner gets it, or does not have it any more.
type step struct {
	ends  bool
	fence int64
}

// lock is the state of a lock: who has it, by token, 0 for none, and the highest token so far.
type lock struct{ holder, highest int64 }

// model is the lock as porcupine sees it: one holder at a time, tokens rising.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lock{} },
		Step: func(state, input, _ any) (bool, any) {
			s, isLock := state.(lock)
			in, isStep := input.(step)
			switch {
			case !isLock || !isStep:
				return false, state
			case in.ends:
				return s.holder == in.fence, lock{0, s.highest}
			default:
				return s.holder == 0 && in.fence > s.highest, lock{in.fence, in.fence}
			}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
}

// operations are those of one name's leases: each is got between the call and the return
// of Acquire, and ends within Release, or, if that is not known to have succeeded, at
// any time after belief did. A fault that voids exclusion may have ended it from its own
// beginning on, without the owner's knowing, perhaps before Acquire returned; hand-offs
// that go on meanwhile inside the owner's process are not the lock's affair.
func operations(leases []*Lease, excused []Window) []porcupine.Operation {
	var all []porcupine.Operation
	for i, l := range leases {
		ended := porcupine.Operation{
			ClientId: i, Input: step{true, l.Fence}, Call: l.End,
			Return: Never,
		}
		if l.clean() {
			ended.Return = l.Freed
		}
		if w, ok := excuse(excused, l.Begin, l.End); ok {
			if l.Handed {
				continue
			}
			ended.Call, ended.Return = max(l.Asked, min(w.From, ended.Call)), Never
		}
		all = append(all, porcupine.Operation{
			ClientId: i, Input: step{false, l.Fence},
			Call: l.Asked, Return: l.Begin,
		}, ended)
	}
	return all
}

// unmodelled finds names whose operations have no order in which the lock is a lock.
func unmodelled(leases []*Lease, excused []Window) []Violation {
	byName := make(map[string][]*Lease)
	for _, l := range leases {
		byName[l.Name] = append(byName[l.Name], l)
	}
	var found []Violation
	for name, all := range byName {
		for some := range pieces(all) {
			ops := operations(some, excused)
			result, info := porcupine.CheckOperationsVerbose(model(), ops, modelTime)
			switch result {
			case porcupine.Illegal:
				found = append(found,
					violation("lock model",
						"%q: no order of %d grants has one holder at a time and rising tokens; %s",
						name, len(some), stuck(some, ops, info)))
			case porcupine.Unknown:
				found = append(found,
					violation("lock model", "%q: no order of %d grants found within %v", name,
						len(some), modelTime))
			case porcupine.Ok:
			}
		}
	}
	return found
}

// stuck tells where the search for an order came to its end.
func stuck(leases []*Lease, all []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, some := range partition {
			if len(some) > len(longest) {
				longest = some
			}
		}
	}
	open := make(map[int]bool) // those to be placed
	for _, o := range all {
		open[o.ClientId] = true
	}
	for _, o := range longest {
		if s, ok := o.Input.(step); ok && !s.ends {
			delete(open, o.ClientId)
		}
	}
	for i, l := range leases {
		if open[i] {
			return fmt.Sprintf("%d could be placed, and not token %d of %s after %d of %s",
				len(longest)/2, l.Fence, l.Process, leases[max(0, i-1)].Fence, leases[max(0,
					i-1)].Process)
		}
	}
	return fmt.Sprintf("%d could be placed", len(longest)/2)
}

// The search takes memory by the square of its length, so that a long history is searched in pieces
// that overlap: what is wrong is wrong among neighbours, since tokens are checked over the whole.
const (
	pieceLength  = 2000
	pieceOverlap = 100
)

// pieces are those of one name's leases, in the order of their beginnings.
func pieces(leases []*Lease) iter.Seq[[]*Lease] {
	return func(yield func([]*Lease) bool) {
		for len(leases) > pieceLength {
			if !yield(leases[:pieceLength]) {
				return
			}
			leases = leases[pieceLength-pieceOverlap:]
		}
		yield(leases)
	}
}
