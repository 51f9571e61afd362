package view

import "github.com/lockbeat/lockbeat/renewer/store"

// ReadFace is who waits at a place, as the value of a face says.
func ReadFace(text string, number uint64) (who store.Holder, version string) {
	return readFace(text).place(number)
}
