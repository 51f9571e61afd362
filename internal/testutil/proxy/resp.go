package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// framer cuts a stream into whole RESP values, so that one can be
// dropped without harm to its neighbours.
type framer struct {
	buf []byte
	raw bool // it is not RESP: whatever arrives is a frame
}

var (
	errShort = errors.New("the value is not whole yet")
	errRESP  = errors.New("this is not RESP")
)

// push adds bytes and returns the frames that are whole now.
func (f *framer) push(b []byte) [][]byte {
	f.buf = append(f.buf, b...)
	var frames [][]byte
	for !f.raw && len(f.buf) > 0 {
		n, err := valueLen(f.buf, 0)
		if errors.Is(err, errShort) {
			return frames
		}
		if err != nil {
			f.raw = true
			break
		}
		frames = append(frames, f.buf[:n:n])
		f.buf = f.buf[n:]
	}
	return append(frames, f.rest()...)
}

// rest returns what is left, whole or not, as a frame.
func (f *framer) rest() [][]byte {
	if len(f.buf) == 0 {
		f.buf = nil // frames handed out own the array
		return nil
	}
	frame := f.buf
	f.buf = nil
	return [][]byte{frame}
}

// isPush reports whether a frame is a RESP3 push, which answers no request.
func isPush(frame []byte) bool { return frame[0] == '>' }

// subscribes reports whether RESP3 answers a request by pushes alone, as it
// does SUBSCRIBE, PUNSUBSCRIBE, and so on.
func subscribes(frame []byte) bool {
	parts := bytes.SplitN(frame, []byte("\r\n"), 4) // *2, $9, SUBSCRIBE, the rest
	return len(parts) > 2 && bytes.HasSuffix(bytes.ToUpper(parts[2]), []byte("SUBSCRIBE"))
}

// Both are far beyond what Redis sends; without them, other protocols could be
// held back for ever.
const (
	maxDepth = 64
	maxLine  = 64 << 10
)

// kinds are the first bytes of RESP values.
const kinds = "+-:$*>~%|=!,#_("

// valueLen returns the length of the value that b begins with.
func valueLen(b []byte, depth int) (int, error) {
	if depth > maxDepth {
		return 0, errRESP
	}
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		if len(b) > maxLine || len(b) > 0 && strings.IndexByte(kinds, b[0]) < 0 {
			return 0, errRESP
		}
		return 0, errShort
	}
	line := end + 2
	switch b[0] {
	case '+', '-', ':', ',', '#', '_', '(':
		return line, nil
	case '$', '=', '!':
		n, err := strconv.Atoi(string(b[1:end]))
		switch {
		case err != nil || n < -1:
			return 0, errRESP
		case n == -1:
			return line, nil
		case len(b) < line+n+2:
			return 0, errShort
		default:
			return line + n + 2, nil
		}
	case '*', '>', '~', '%', '|':
		n, err := strconv.Atoi(string(b[1:end]))
		if err != nil || n < -1 {
			return 0, errRESP
		}
		switch b[0] {
		case '%':
			n *= 2
		case '|':
			n = 2*n + 1 // an attribute goes with the value after it
		}
		return manyLen(b, line, n, depth)
	default:
		return 0, errRESP
	}
}

// manyLen returns the length of an aggregate whose n values begin at b[at].
func manyLen(b []byte, at, n, depth int) (int, error) {
	for range n {
		size, err := valueLen(b[at:], depth+1)
		if err != nil {
			return 0, err
		}
		at += size
	}
	return at, nil
}
