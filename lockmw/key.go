package lockmw

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/renewer"
)

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins a static prefix and the parts of a key with colons, so that different parts never make the same key: colons and
// percent signs in parts are escaped. Key("order", "a:b") is "order:a%3Ab". An empty part makes an empty key, which is refused
// with [renewer.ErrName] wherever it is used, since it mostly means that a field was not filled in. If a part is made by [Keys], the
// key is one for each of its names.
func Key(prefix string, parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for i, part := range parts {
		if part == "" {
			return ""
		}
		if names := split(part); names != nil {
			return keyOfEach(prefix, parts, i, names)
		}
		b.WriteByte(':')
		keyEscaper.WriteString(&b, part) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}

// keyOfEach is Key with the i-th part replaced by each of names.
func keyOfEach(prefix string, parts []string, i int, names []string) string {
	keys := make([]string, len(names))
	for j, name := range names {
		one := slices.Clone(parts)
		one[i] = name
		keys[j] = Key(prefix, one...)
	}
	return Keys(keys...)
}

// several begins a name that stands for several. It is different in each process, so that nothing from outside can be taken for one,
// and too long for a lock, so that one given to the keeper itself is refused.
var several = rand.Text() + strings.Repeat("\x00", renewer.MaxName)

// Keys makes one name of several, for an operation that needs all of their locks: a transfer between two accounts. It can be given
// wherever this package or an adapter takes a name, and nowhere else: it means something in this process only.
//
// The locks are taken all or none, in one round trip if they are free. Otherwise they are taken one after the other in the order of
// their names, whatever the order here, so that two callers never wait for each other in a circle. The function's context ends when
// any of them is lost. [FenceOf] tells each one's token. An empty name, or none at all, makes an empty key.
func Keys(names ...string) string {
	var all []string
	for _, name := range names {
		if name == "" {
			return ""
		}
		if inner := split(name); inner != nil {
			all = append(all, inner...)
		} else {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	var b strings.Builder
	b.WriteString(several)
	for _, name := range all {
		b.WriteString(strconv.Itoa(len(name)))
		b.WriteByte(':')
		b.WriteString(name)
	}
	return b.String()
}

// split returns the names, in order, that a name made by [Keys] stands for; nil for any other name.
func split(name string) []string {
	rest, ok := strings.CutPrefix(name, several)
	if !ok {
		return nil
	}
	var names []string
	for rest != "" {
		size, after, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(size)
		if err != nil || n > len(after) {
			return nil // not made by Keys
		}
		names, rest = append(names, after[:n]), after[n:]
	}
	return names
}
