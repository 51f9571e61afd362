// Package wire has what adapters need to read what comes over a wire:
// fencing tokens passed on, and payloads to be decoded.
package wire

import (
	"reflect"
	"strconv"
)

// MaxFence is the highest fencing token that may come over a wire: 2^53-1. Up
// to there Lua, JavaScript and most JSON tell one token from the next. Tokens
// are microseconds since 1970, or little above, and get there in the year 2255.
const MaxFence = 1<<53 - 1

// FormatFence writes a fencing token for a header or for metadata.
func FormatFence(fence int64) string { return strconv.FormatInt(fence, 10) }

// ParseFence reads what FormatFence writes of a token, and no other form: it is
// positive and at most [MaxFence], with no sign and no leading zeros.
func ParseFence(s string) (fence int64, ok bool) {
	fence, err := strconv.ParseInt(s, 10, 64)
	return fence, err == nil && fence > 0 && fence <= MaxFence && FormatFence(fence) == s
}

// Into is what to decode a *v from, for a codec that takes any pointer. It is v itself,
// or, if a T is a pointer, that one, allocated: a codec such as proto.Unmarshal wants a
// *Message and not a **Message. It is never nil then, not even for a JSON null.
func Into[T any](v *T) any {
	typ := reflect.TypeFor[T]()
	if typ.Kind() != reflect.Pointer {
		return v
	}
	value := reflect.New(typ.Elem())
	reflect.ValueOf(v).Elem().Set(value)
	return value.Interface()
}
