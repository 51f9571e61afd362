// Package names is what a name of package lockmw stands for: a lock or a limit,
// or several of them.
package names

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// most is how many names one operation may have: they often come from a
// request, whose sender must not choose how many locks it takes.
const most = 64

// ID tells a lock or a limit from others. A lock and a limit of one name are
// two things.
type ID struct {
	Name    string
	Limited bool
}

// Want is a lock or a limit that a caller wants.
type Want struct {
	Name  string
	Limit func() int // nil: a lock
	Rank  int64      // 0: none
}

// ID is that of the lock or limit.
func (w Want) ID() ID { return ID{w.Name, w.Limit != nil} }

// Set is what a caller wants together. The zero value wants nothing, and is
// refused.
type Set struct {
	one  Want
	more []Want // in the order of their names, locks first
	err  error
}

// Of is the set of one. Its name is checked by who asks for it.
func Of(w Want) Set { return Set{one: w} }

// Invalid is the set of a fault.
func Invalid(err error) Set { return Set{err: err} }

// Err is why a set names nothing that can be had; nil if there is no such
// reason.
func (s Set) Err() error { return s.err }

// One returns what a set of one wants. ok is false for a set of several; err is
// as Err.
func (s Set) One() (w Want, ok bool, err error) { return s.one, len(s.more) == 0, s.err }

// All are the locks and limits, none of a set with an error.
func (s Set) All() iter.Seq[Want] {
	return func(yield func(Want) bool) {
		if s.err != nil || !yield(s.one) {
			return
		}
		for _, w := range s.more {
			if !yield(w) {
				return
			}
		}
	}
}

// Texts are the names.
func (s Set) Texts() (texts []string) {
	for w := range s.All() {
		texts = append(texts, w.Name)
	}
	return texts
}

// Join is the sets together.
func Join(sets []Set) Set {
	switch len(sets) {
	case 0:
		return Set{err: fmt.Errorf("%w: All names nothing; give it a name", renewer.ErrName)}
	case 1:
		return sets[0]
	}
	var all []Want
	for _, s := range sets {
		if s.err != nil {
			return s
		}
		for w := range s.All() {
			if err := w.check(); err != nil {
				return Set{err: err}
			}
			all = append(all, w)
		}
		if len(all) > 2*most { // now and then, so that a long list costs no more memory
			if all = distinct(all); len(all) > most {
				break
			}
		}
	}
	all = distinct(all)
	for i := 1; i < len(all); i++ {
		if all[i].ID() == all[i-1].ID() {
			return Set{err: fmt.Errorf("%w: a limit is given twice for one call; give each once",
				renewer.ErrName)}
		}
	}
	if len(all) > most {
		return Set{err: fmt.Errorf("%w: more than %d names were given for one operation; bound "+
			"the list where it comes from", renewer.ErrName, most)}
	}
	s := Set{one: all[0]}
	if len(all) > 1 {
		s.more = all[1:]
	}
	return s
}

// check refuses what can't be one of several.
func (w Want) check() error {
	if w.Rank != 0 {
		return fmt.Errorf("%w: only a single lock has a rank (Ranked), and neither a limit nor "+
			"one of several names", renewer.ErrConfig)
	}
	switch {
	case w.Name == "":
		return ErrEmpty
	case len(w.Name) > store.MaxName:
		return ErrLong
	default:
		return renewer.CheckName(w.Name)
	}
}

// What is wrong with one of several names.
var (
	ErrEmpty = fmt.Errorf("%w: one of several is empty, or made of an empty part; name what the "+
		"lock protects, such as \"order:42\"", renewer.ErrName)
	ErrLong = fmt.Errorf("%w: one of several has more than %d bytes; hash what makes it long",
		renewer.ErrName, store.MaxName)
)

// distinct puts wants in order, and drops locks that come again.
func distinct(all []Want) []Want {
	slices.SortStableFunc(all, func(a, b Want) int {
		switch {
		case a.Limit == nil && b.Limit != nil:
			return -1
		case a.Limit != nil && b.Limit == nil:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return slices.CompactFunc(all, func(a, b Want) bool {
		return a.Limit == nil && b.Limit == nil && a.Name == b.Name
	})
}

// Narrowest returns the locks and limits in the order in which all callers wait
// for them: locks by name, then limits by how many may hold them now, and by
// name.
func (s Set) Narrowest() []Want {
	if s.err != nil {
		return nil
	}
	all := append(append(make([]Want, 0, 1+len(s.more)), s.one), s.more...)
	limits := all[len(all):]
	if i := slices.IndexFunc(all, func(w Want) bool { return w.Limit != nil }); i >= 0 {
		limits = all[i:]
	}
	if len(limits) > 1 {
		sortByNumber(limits)
	}
	return all
}

// sortByNumber asks each limit for its number once, which may change meanwhile.
func sortByNumber(limits []Want) {
	type numbered struct {
		Want

		number int
	}
	by := make([]numbered, len(limits))
	for i, w := range limits {
		by[i] = numbered{w, max(w.Limit(), 0)}
	}
	slices.SortFunc(by, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.Name, b.Name))
	})
	for i := range by {
		limits[i] = by[i].Want
	}
}

// CheckLimit refuses a number that no limit has.
func CheckLimit(name string, n int) error {
	if n >= 0 {
		return nil
	}
	return &renewer.Error{Op: "acquire", Name: name, Kind: renewer.ErrConfig, Err: fmt.Errorf(
		"the limit is %d; give 0 to close it, or how many may run", n)}
}

// ErrNoReason is why a name is invalid whose maker did not say it.
var ErrNoReason = errors.New("its maker (lockmw.Invalid) gave no reason")
