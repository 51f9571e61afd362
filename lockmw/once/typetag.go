package once

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
)

// tagOf tells results of different types apart: the type's name, and behind it a hash of its
// package's path and its name, by which types are compared. A pointer counts as what it points to.
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
	return fmt.Sprintf("%s#%06x", line(t.String(), maxNode), h.Sum32()>>8)
}

// hashLen is that of the end of a tag, by which tags are compared.
const hashLen = len("#3fa9c1")

// cutTag cuts the name in a tag so that the tag has so many bytes, but leaves its hash.
func cutTag(tag string, most int) string {
	name, hash := tag[:len(tag)-hashLen], tag[len(tag)-hashLen:]
	return line(name, max(most-hashLen, 0)) + hash
}

// otherType reports whether a result that has a tag is of another type than that of mine. Results
// of the record's first version have none.
func otherType(tag, mine string) bool {
	return tag != "" && !strings.HasSuffix(mine, tag[len(tag)-hashLen:])
}
