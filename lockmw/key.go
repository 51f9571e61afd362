package lockmw

import "strings"

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins a static kind and the parts of a key with colons, so that different
// parts never make the same key: Key("order", "a:b") is "order:a%3Ab". An empty
// part, or kind, makes an empty name, which is refused with [renewer.ErrName],
// since it mostly means that a field was not filled in.
func Key(kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, part := range parts {
		if part == "" || kind == "" {
			return ""
		}
		b.WriteByte(':')
		keyEscaper.WriteString(&b, part) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}
