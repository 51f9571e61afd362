package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// ErrDuplicate means that an object has a name twice.
var ErrDuplicate = errors.New("a name is there twice in one object")

// DecodeJSON is json.Unmarshal for what a client has sent: an object that has a
// name twice is an error that is [ErrDuplicate]. Parsers differ in which of the
// two they take, so that one that checks a request, or names its lock, may see
// another value than the one that carries it out. In an object that becomes a
// struct, names that differ in case alone are one, since json.Unmarshal takes
// them for the same field. (Objects further in are not checked for that, since
// they may become maps.)
func DecodeJSON(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return checkNames(data, foldsNames(reflect.TypeOf(v)))
}

// foldsNames reports whether json.Unmarshal takes names that differ in case for
// one field of a type.
func foldsNames(typ reflect.Type) bool {
	for typ != nil && typ.Kind() == reflect.Pointer {
		if typ.Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return false // it has its own way
		}
		typ = typ.Elem()
	}
	return typ != nil && typ.Kind() == reflect.Struct
}

// checkNames looks for names that are there twice, in JSON that is known to be
// valid. With anyCase the outermost object's are so also if they differ in
// case.
func checkNames(data []byte, anyCase bool) error {
	var open []map[string]bool // the names so far of each object that is open; nil for an array
	begins := false            // whether a string here is a name
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{':
			open, begins = append(open, make(map[string]bool)), true
		case '[':
			open, begins = append(open, nil), false
		case '}', ']':
			open, begins = open[:len(open)-1], false
		case ',':
			begins = open[len(open)-1] != nil
		case ':':
			begins = false
		case '"':
			end := endOfString(data, i)
			if begins {
				if err := addName(open[len(open)-1], data[i:end], anyCase &&
					len(open) == 1); err != nil {
					return err
				}
			}
			i = end - 1
		}
	}
	return nil
}

// endOfString is behind the closing quote of the string that begins at
// data[begin].
func endOfString(data []byte, begin int) int {
	for i := begin + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

func addName(names map[string]bool, quoted []byte, anyCase bool) error {
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return err
	}
	if anyCase {
		name = strings.Map(fold, name)
	}
	if names[name] {
		return fmt.Errorf("%w: %.80q", ErrDuplicate, name)
	}
	names[name] = true
	return nil
}

// fold returns the least of the letters that differ from r in case alone.
func fold(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
