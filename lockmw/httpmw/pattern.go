package httpmw

import "strings"

// resource returns the path that a route's pattern names, up to and including the last
// wildcard called name. Each wildcard is replaced by its value, escaped so that different
// values make different paths. known reports whether there is such a wildcard. It is the
// last of that name, since chi has the last value for both where a name comes twice.
//
// Patterns are those of http.ServeMux, "GET example.com/a/{id}/{rest...}", and of chi,
// "/a/{id:[0-9]+}.{format}/*".
func resource(pattern, name string, value func(string) string) (path string, known bool) {
	begin := strings.IndexByte(pattern, '/')
	if begin < 0 {
		return "", false
	}
	pattern = pattern[begin:]
	var b strings.Builder
	for rest := pattern; ; {
		literal, w, after, ok := cut(rest)
		if !ok {
			return path, known
		}
		for i, segment := range strings.Split(literal, "/") {
			if i > 0 {
				b.WriteByte('/')
			}
			escape(&b, segment, "/")
		}
		escape(&b, value(w.name), w.ends)
		if w.name == name {
			path, known = b.String(), true
		}
		rest = after
	}
}

// wildcard is a wildcard of a pattern.
type wildcard struct {
	name string
	ends string // bytes that end the value, and are escaped in it
}

// cut cuts a pattern at its first wildcard, and reports whether there is one.
func cut(pattern string) (literal string, w wildcard, after string, ok bool) {
	begin := strings.IndexByte(pattern, '{')
	if begin < 0 {
		// A star is chi's at the end only. Elsewhere it is ServeMux's, and literal.
		literal, ok = strings.CutSuffix(pattern, "/*")
		return literal + "/", wildcard{name: "*"}, "", ok
	}
	end, depth := begin, 0
	for ; end < len(pattern); end++ {
		switch pattern[end] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if end == len(pattern) {
		return "", wildcard{}, "", false
	}
	after = pattern[end+1:]
	w.name, _, _ = strings.Cut(pattern[begin+1:end], ":") // of chi's {id:[0-9]+}
	var whole bool
	if w.name, whole = strings.CutSuffix(w.name, "..."); !whole {
		w.ends = "/"
		if after != "" {
			w.ends += after[:1] // chi's {id}.json
		}
	}
	return pattern[:begin], w, after, true
}

const hexDigits = "0123456789ABCDEF"

// escape writes s. Percent signs, control bytes and special bytes are percent-encoded.
func escape(b *strings.Builder, s, special string) {
	s = plain(s)
	for i := range len(s) {
		c := s[i]
		if c != '%' && !isControl(rune(c)) && strings.IndexByte(special, c) < 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
	}
}

// plain takes percent-encoding off until none is left. How much a value has depends on the router
// and on how the client wrote the path. Taken off once only, one value could make two names.
func plain(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		// What has been decoded may complete another code, "%2" + "%35" for one.
		for n := len(out); n >= 3 && out[n-3] == '%' && isHex(out[n-2]) &&
			isHex(out[n-1]); n = len(out) {
			out = append(out[:n-3], unhex(out[n-2])<<4|unhex(out[n-1]))
		}
	}
	return string(out)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|' ' >= 'a' && c|' ' <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | ' ' - 'a' + 10
}
