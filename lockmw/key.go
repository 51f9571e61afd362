package lockmw

import (
	"slices"
	"strings"
)

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins a static prefix and the parts of a key with colons, so that different parts never make
// the same key: colons and percent signs in parts are escaped. Key("order", "a:b") is
// "order:a%3Ab". An empty part makes an empty key, which is refused with [renewer.ErrName] wherever
// it is used, since it mostly means that a field was not filled in. If a part is made by [Keys],
// the key is one for each of its names: of several such parts, for each combination, and these may
// be as many as [Keys] allows, or as the longest of the parts has.
func Key(prefix string, parts ...string) string {
	most, all := maxKeys, 1
	for _, part := range parts {
		if part == "" {
			return ""
		}
		if tooMany(part) != nil {
			return part
		}
		if n := len(split(part)); n > 0 {
			most, all = max(most, n), min(all, mostCombinations/n)*n
		}
	}
	if all > most {
		return refusedKeys(all, most)
	}
	return join(prefix, parts, most)
}

// mostCombinations keeps the number of combinations from overflowing.
const mostCombinations = 1 << 30

// join is Key for parts that make at most so many keys.
func join(prefix string, parts []string, most int) string {
	var b strings.Builder
	b.WriteString(prefix)
	for i, part := range parts {
		if names := split(part); names != nil {
			return joinEach(prefix, parts, i, names, most)
		}
		b.WriteByte(':')
		keyEscaper.WriteString(&b, part) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}

// joinEach is join with the i-th part replaced by each of names.
func joinEach(prefix string, parts []string, i int, names []string, most int) string {
	keys := make([]string, len(names))
	for j, name := range names {
		one := slices.Clone(parts)
		one[i] = name
		keys[j] = join(prefix, one, most)
	}
	return KeysUpTo(most, keys...)
}
