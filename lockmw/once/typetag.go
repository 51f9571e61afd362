package once

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
)

// tagOf tells results of different types apart: the type's name, and behind it
// a hash of its package's path and its name, by which types are compared. A
// pointer counts as what it points to.
func tagOf[T any]() string {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	whole := t.String() // of a type without a name it names the packages of its parts
	if t.PkgPath() != "" {
		whole = t.PkgPath() + "." + t.Name()
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(whole))
	name := line(strings.ReplaceAll(t.String(), " ", ""), maxNode)
	return fmt.Sprintf("%s#%06x", name, h.Sum32()>>8)
}

// hashLen is that of the end of a tag, by which tags are compared.
const hashLen = len("#3fa9c1")

// isTag reports whether a text is what tagOf returns for some type, as far as
// can be told.
func isTag(s string) bool {
	return len(s) > hashLen && s[len(s)-hashLen] == '#' && line(s, maxNode+hashLen) == s
}

// otherType reports whether a result that has a tag is of another type than
// that of mine. A result may have none.
func otherType(tag, mine string) bool {
	return tag != "" && tag[len(tag)-hashLen:] != mine[len(mine)-hashLen:]
}
