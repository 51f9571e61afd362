package inspect

import "github.com/lockbeat/lockbeat/renewer"

// Filter chooses among locks and limits by name; limit is true of a limit. It
// must not block.
type Filter = func(name string, limit bool) bool

// Match chooses names by a pattern, in which * stands for any text and ? for
// one byte.
func Match(pattern string) Filter {
	return func(name string, _ bool) bool { return matches(pattern, name) }
}

// Hash chooses the names that logs and spans show as hash. secret is that of
// renewer.HashNames and tracing.WithKeySecret; nil for none.
func Hash(hash string, secret []byte) Filter {
	return func(name string, _ bool) bool { return renewer.HashName(name, secret) == hash }
}

// matches goes back to the last * on a mismatch, which takes one byte more
// then. So it takes len(pattern) times len(name) steps at most.
func matches(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
