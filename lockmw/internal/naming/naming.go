// Package naming is what the names stand for that lockmw.Keys, lockmw.Limit and lockmw.Ranked make:
// several locks, limits, and a lock with how new the work is that wants it.
//
// Such a name means something in this process only, and is too long for a lock, so that one that is
// given to the keeper itself is refused.
package naming

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	// Several begins a name that stands for several. Behind it is, for each, its length, a colon,
	// and the name. It is different in each process, so that nothing from outside can be taken for
	// one.
	Several = rand.Text() + strings.Repeat("\x00", store.MaxName)
	// Limited begins a name that stands for a limit. Behind it are the number, a colon, and the
	// name.
	Limited = rand.Text() + strings.Repeat("\x00", store.MaxName)
	// ranked begins a name with a rank. Behind it are the rank, a colon, and the name.
	ranked = rand.Text() + strings.Repeat("\x00", store.MaxName)
)

// ByFunc is before the number of a limit that goes by a function instead.
const ByFunc = "~"

// Split returns the names, in order, that a name stands for that begins with Several; nil for any
// other name.
func Split(name string) []string {
	rest, ok := strings.CutPrefix(name, Several)
	if !ok {
		return nil
	}
	var names []string
	for rest != "" {
		size, after, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(after) {
			return nil // not made by Keys
		}
		names, rest = append(names, after[:n]), after[n:]
	}
	return names
}

// CutLimit returns the name of the limit that a name stands for, and how many may hold it. ok is
// false for any other.
func CutLimit(name string) (plain string, n int, ok bool) {
	rest, ok := strings.CutPrefix(name, Limited)
	if !ok {
		return name, 0, false
	}
	number, plain, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(strings.TrimPrefix(number, ByFunc))
	return plain, n, err == nil
}

// Rank gives the name of a lock a rank of 1 or more.
func Rank(name string, rank int64) string {
	return ranked + strconv.FormatInt(rank, 10) + ":" + name
}

// CutRank returns the name that a name with a rank stands for, and its rank; any other name itself,
// and 0.
func CutRank(name string) (plain string, rank int64) {
	rest, ok := strings.CutPrefix(name, ranked)
	if !ok {
		return name, 0
	}
	number, plain, _ := strings.Cut(rest, ":")
	rank, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return name, 0 // not made by Rank
	}
	return plain, rank
}

// Narrowest orders names: locks, then limits by how many may hold them, and by name. All callers
// wait in this order.
func Narrowest(a, b string) int {
	nameA, n, okA := CutLimit(a)
	nameB, m, okB := CutLimit(b)
	switch {
	case okA != okB && okA:
		return 1
	case okA != okB:
		return -1
	}
	return cmp.Or(cmp.Compare(n, m), strings.Compare(nameA, nameB))
}

// Want is a lock, or a limit, that a caller wants.
type Want struct {
	// Name is the caller's.
	Name string
	// AtMost returns how many may have it at once; nil for a lock.
	AtMost func() int
}

// Of returns what a name stands for, in the order of [Narrowest]. Names of locks are limits if
// atMost is not nil, which has the number of each.
func Of(name string, atMost func(name string) int) []Want {
	names := Split(name)
	if names == nil {
		name, _ = CutRank(name)
		names = []string{name}
	}
	type want struct {
		Want

		number int
	}
	wants := make([]want, len(names))
	for i, one := range names {
		plain, n, limit := CutLimit(one)
		wants[i].Name, wants[i].number = plain, -1
		switch {
		case limit:
			wants[i].AtMost, wants[i].number = func() int { return n }, n
		case atMost != nil:
			wants[i].AtMost, wants[i].number = func() int { return atMost(plain) }, atMost(plain)
		}
	}
	slices.SortFunc(wants, func(a, b want) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.Name, b.Name))
	})
	all := make([]Want, len(wants))
	for i, one := range wants {
		all[i] = one.Want
	}
	return all
}

// StoreName is what stores call it.
func (w Want) StoreName() string {
	if w.AtMost != nil {
		return store.LimitName(w.Name)
	}
	return w.Name
}

// Limit is how many may have it at once; 0 for a lock, and for a limit that is closed.
func (w Want) Limit() int {
	if w.AtMost == nil {
		return 0
	}
	return max(w.AtMost(), 0)
}
