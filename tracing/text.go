package tracing

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is s in a form that is safe in an attribute, and from there in a
// log line: valid UTF-8, without control bytes, at most so many bytes. What
// can't be shown becomes U+FFFD. Exporters refuse a whole batch because of one
// broken byte.
func printable(s string, most int) string {
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
