package lockmw

import (
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
)

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins a static prefix and the parts of a key with colons, so that different parts never make
// the same key: colons and percent signs in parts are escaped. Key("order", "a:b") is
// "order:a%3Ab". An empty part makes an empty key, which is refused with [renewer.ErrName] wherever
// it is used, since it mostly means that a field was not filled in. If a part is made by [Keys],
// the key is one for each of its names: of several such parts, for each combination, and these may
// be as many as [Keys] allows. If a part is made by [Limit], the key is that of a limit; if by
// [Ranked], it has the rank.
func Key(prefix string, parts ...string) string {
	all := 1
	for _, part := range parts {
		if part == "" {
			return ""
		}
		if tooMany(part) != nil {
			return part
		}
		if all *= max(len(naming.Split(part)), 1); all > maxKeys {
			return refusedKeys(all)
		}
	}
	var b strings.Builder
	b.WriteString(prefix)
	for i, part := range parts {
		if plain, n, ok := naming.CutLimit(part); ok {
			one := slices.Clone(parts)
			one[i] = plain
			return Limit(Key(prefix, one...), n)
		}
		if plain, rank := naming.CutRank(part); rank != 0 {
			one := slices.Clone(parts)
			one[i] = plain
			return Ranked(Key(prefix, one...), rank)
		}
		if names := naming.Split(part); names != nil {
			keys := make([]string, len(names))
			for j, name := range names {
				one := slices.Clone(parts)
				one[i] = name
				keys[j] = Key(prefix, one...)
			}
			return Keys(keys...)
		}
		b.WriteByte(':')
		keyEscaper.WriteString(&b, part) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}
