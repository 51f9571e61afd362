package tracing

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// KeyMode says how spans show which lock they are about. Metrics never show it.
type KeyMode uint8

const (
	// KeyModeOff leaves the lock's name out.
	KeyModeOff KeyMode = iota
	// KeyModeHashed shows a hash of the name, by which the spans about one lock are found, and the
	// lines of a renewer.LogObserver: see [renewer.HashName]. It is the default. The name can't be
	// read, but it can be guessed; [WithKeySecret] prevents that.
	KeyModeHashed
	// KeyModePlain shows the name, and the texts of errors, which may have it in them: for
	// development, or where names carry no personal data.
	KeyModePlain
)

// shown is what spans show of a lock's name, "" for nothing.
func (s *settings) shown(name string) string {
	switch s.keyMode {
	case KeyModeHashed:
		return renewer.HashName(name, s.keySecret)
	case KeyModePlain:
		return printable(name, store.MaxName)
	default:
		return ""
	}
}

// withKey adds what is shown of a name to attributes, if anything is.
func (s *settings) withKey(attrs []attribute.KeyValue, shown string) []attribute.KeyValue {
	switch {
	case shown == "":
		return attrs
	case s.keyMode == KeyModeHashed:
		return append(attrs, attribute.String(keyNameHash, shown))
	default:
		return append(attrs, attribute.String(keyName, shown))
	}
}
