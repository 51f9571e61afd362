package lockmw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// maxKeys is how many different names [Keys] stands for at most.
const maxKeys = 64

// Keys makes one name of several, for an operation that needs all of their locks: a transfer
// between two accounts. It can be given wherever this package or an adapter takes a name, and
// nowhere else: it means something in this process only.
//
// The locks are taken all or none, in one request if they are free. If some are not, the caller
// waits for one after the other in the order of their names, limits last, whatever the order here,
// so that two callers never wait for each other in a circle. While it waits it keeps those before,
// for an eighth of [Wait] at most, and no longer than a second: then it gives them back, waits for
// the busy one alone, and takes the others when it has that. A name is kept idle for the sake of
// others for a tenth of the time at most. So names that stay busy keep no caller from the others
// for long, and a caller who needs many busy names may wait longer than one who needs one.
//
// The function's context ends when any of them is lost. [FenceOf] reports each one's token. An
// empty name, or none at all, makes an empty key. More than 64 different names make one that
// every acquire refuses with [renewer.ErrName]: names often come from a request, whose sender must
// not choose how many locks it takes.
func Keys(names ...string) string {
	all := make([]string, 0, min(len(names), 2*maxKeys))
	for _, name := range names {
		if name == "" {
			return ""
		}
		if tooMany(name) != nil {
			return name
		}
		if inner := naming.Split(name); inner != nil {
			all = append(all, inner...)
		} else {
			all = append(all, name)
		}
		// Now and then, so that a long list costs no more memory than a short one.
		if len(all) > 2*maxKeys {
			if all = distinct(all); len(all) > maxKeys {
				return refusedKeys(len(names))
			}
		}
	}
	switch all = distinct(all); {
	case len(all) == 0:
		return ""
	case len(all) == 1:
		return all[0]
	case len(all) > maxKeys:
		return refusedKeys(len(names))
	}
	if wrong := cmp.Or(givenTwice(all), rankAmong(all)); wrong != "" {
		return wrong
	}
	var b strings.Builder
	b.WriteString(naming.Several)
	for _, name := range all {
		b.WriteString(strconv.Itoa(len(name)))
		b.WriteByte(':')
		b.WriteString(name)
	}
	return b.String()
}

// distinct puts names in order, and drops those that come again.
func distinct(names []string) []string {
	slices.SortFunc(names, naming.Narrowest)
	return slices.Compact(names)
}

// refusal begins a name that stands for too many.
var refusal = naming.Several + "!"

// refusedKeys makes such a name.
func refusedKeys(given int) string {
	return refusal + strconv.Itoa(given) +
		" names were given for one operation, of which at most " +
		strconv.Itoa(maxKeys) + " may be different; bound the list where it comes from"
}

// NamesOf are the names that a name made by [Keys], [Limit], [Limits] or [Ranked] stands for, in
// order, none if these are too many; and any other name itself. Of a limit it is the plain name,
// for logs: [Held] and [FenceOf] want the name that [Limit] made, since a limit and a lock of one
// name are two things.
func NamesOf(name string) []string {
	if tooMany(name) != nil {
		return nil
	}
	name, _ = naming.CutRank(name)
	names := naming.Split(name)
	if names == nil {
		names = []string{name}
	}
	for i, one := range names {
		names[i], _, _ = naming.CutLimit(one)
	}
	return names
}

// tooMany is the error for a name that stands for too many; nil for any other.
func tooMany(name string) error {
	what, ok := strings.CutPrefix(name, refusal)
	if !ok {
		return nil
	}
	return fmt.Errorf("%w: %s", renewer.ErrName, what)
}
