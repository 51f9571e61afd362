package tracing

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// shown is what spans show of a lock's name.
func (s *settings) shown(name string) string {
	if s.names {
		return printable(name, store.MaxName)
	}
	return renewer.HashName(name, s.keySecret)
}

// withKey adds what is shown of a name to attributes.
func (s *settings) withKey(attrs []attribute.KeyValue, shown string) []attribute.KeyValue {
	key := keyNameHash
	if s.names {
		key = keyName
	}
	return append(attrs, attribute.String(key, shown))
}
