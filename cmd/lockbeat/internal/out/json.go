package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSON writes a value as one document, indented. It has no byte that a terminal
// could take for an order: what can't be seen is escaped, also where JSON does
// not ask for it.
func JSON(w io.Writer, value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(escapeHidden(b.Bytes()))
	return err
}

// escapeHidden escapes what can't be seen. Outside of its strings JSON has
// nothing of that but line ends.
func escapeHidden(text []byte) []byte {
	if !bytes.ContainsFunc(text, hiddenInJSON) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !hiddenInJSON(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			_, _ = fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func hiddenInJSON(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
